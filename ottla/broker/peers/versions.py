"""Chooses the version of each API for requests to a peer (Kafka's NodeApiVersions)."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ottla.protocol.codec import API_VERSIONS_KEY, decode_response_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.primitives import Buffer

_CORRELATION_AND_ERROR = Struct(">ih")


def newest_own(key: int) -> int:
    """The newest stable version of an API in this release."""
    return APIS[key].max_version


def decode_greeting(version: int, frame: Buffer) -> tuple[int, ApiVersionsResponse]:
    """Return the correlation id and message of a response to ApiVersions.

    A peer that does not support the version responds in version 0 with UNSUPPORTED_VERSION (KIP-511). Raises `DecodeError` and the
    other errors of `protocol.codec.DECODE_FAILURES`.
    """
    _, code = _CORRELATION_AND_ERROR.unpack_from(frame)
    if code == Code.UNSUPPORTED_VERSION:
        version = 0
    correlation_id, response = decode_response_frame(API_VERSIONS_KEY, version, frame)
    return correlation_id, response


class Versions:
    """The versions that this node and the peer support, from the peer's response to ApiVersions."""

    __slots__ = ("_common",)

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._common: dict[int, tuple[int, int]] = {}
        for offered in response.api_keys:
            own = APIS.get(offered.api_key)
            if own is None:
                continue
            low, high = max(own.min_version, offered.min_version), min(own.max_version, offered.max_version)
            if low <= high:
                self._common[offered.api_key] = (low, high)

    def choose(self, key: int, least: int = 0, most: int | None = None) -> int | None:
        """The newest version of an API, from ``least`` to ``most``, that this node and the peer support; None if there is none."""
        low, high = self._common.get(key, (0, -1))
        if most is not None:
            high = min(high, most)
        return high if high >= max(low, least) else None


def greeting_after(response: ApiVersionsResponse) -> int | None:
    """The version in which ApiVersions is sent again after UNSUPPORTED_VERSION; None without a common version."""
    return Versions(response).choose(API_VERSIONS_KEY) if response.api_keys else 0


def key_of(request: Any) -> int:
    """The API key of a request message, from the name of its generated class."""
    return _key_of_type(type(request))


_KEYS: dict[type, int] = {}
_KEYS_BY_NAME = {entry.name: key for key, entry in APIS.items()}


def _key_of_type(kind: type) -> int:
    key = _KEYS.get(kind)
    if key is None:
        key = _KEYS[kind] = _KEYS_BY_NAME[kind.__name__.removesuffix("Request")]
    return key
