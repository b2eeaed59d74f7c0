"""Encodes the principal of a client in an envelope: a version number 0, then Kafka's DefaultPrincipalData."""

from __future__ import annotations

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import compact_string, read_compact_string
from ottla.security.principal import KafkaPrincipal

_VERSION = b"\0\0"
_NO_TAGS = b"\0"


def principal_bytes(principal: KafkaPrincipal, *, is_by_token: bool = False) -> bytes:
    """Encode a principal. ``is_by_token``: the client has authenticated with a delegation token."""
    return _VERSION + compact_string(principal.type) + compact_string(principal.name) + bytes([is_by_token]) + _NO_TAGS


def principal_of(raw: bytes) -> KafkaPrincipal:
    """Decode a principal. Raises DecodeError for bytes that are not a principal of version 0."""
    if raw[:2] != _VERSION:
        raise DecodeError("not a principal of version 0")
    try:
        principal_type, pos = read_compact_string(raw, 2)
        name, pos = read_compact_string(raw, pos)
    except (IndexError, ValueError) as error:
        raise DecodeError("not a principal") from error
    if len(raw) <= pos:
        raise DecodeError("not a principal")
    return KafkaPrincipal(principal_type, name)
