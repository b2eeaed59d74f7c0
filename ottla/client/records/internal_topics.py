"""Decodes the records of internal topics by Kafka's schemas."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

import msgspec

from ottla.protocol import messages
from ottla.protocol.codec import decode_body, decode_record
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.primitives import read_uvarint
from ottla.protocol.secrets import HIDDEN, SECRET_FIELDS, is_secret_config
from ottla.protocol.uuids import uuid_text

_OF_TRANSACTIONS: Final = ("transaction_log_key",)
_OF_SHARE_STATES: Final = ("share_snapshot_key", "share_update_key")
_UUID_BYTES: Final = 16
_OLD_OFFSET_KEY: Final = 0
"""Version 0 of the key of a committed offset. It has the same fields as version 1."""


def read(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Decode a record to ``type``, ``key`` and ``value``. Returns None for a topic that is not internal.

    Raises `DecodeError` for a record of an unknown type or with invalid fields.
    """
    if topic == METADATA_TOPIC:
        return _metadata(value)
    if topic not in INTERNAL_TOPICS:
        return None
    if key is None or len(key) < 2:
        raise DecodeError("the coordinator record has no key")
    kind = int.from_bytes(key[:2], "big")
    name = _kinds(topic).get(kind)
    if name is None:
        raise DecodeError(f"unknown record type {kind}")
    # A key begins with a version number, which Kafka uses as the record type.
    said = decode_record(_module(f"{name}_key"), b"\0\0" + key[2:])
    decoded = None if value is None else decode_record(_module(f"{name}_value"), value)
    return {"type": _title(name), "key": _plain(said), "value": None if decoded is None else _plain(decoded)}


def _metadata(value: bytes | None) -> dict[str, Any]:
    """Decode a metadata record: frame version, type, version and message (org.apache.kafka.server.common.serialization)."""
    try:
        raw = value or b""
        _, at = read_uvarint(raw, 0)
        kind, at = read_uvarint(raw, at)
        version, at = read_uvarint(raw, at)
    except (DecodeError, IndexError):
        raise DecodeError("the metadata record has no type") from None
    name = _metadata_kinds().get(kind)
    if name is None:
        raise DecodeError(f"unknown metadata record type {kind}")
    return {"type": _title(name), "value": _plain(decode_body(_module(name).decode, raw, at, version))}


def _module(name: str) -> Any:
    return import_module(f"{messages.__name__}.{name}")


def _names(suffix: str) -> Iterator[str]:
    return (module.name for module in pkgutil.iter_modules(messages.__path__) if module.name.endswith(suffix))


@cache
def _kinds(topic: str) -> dict[int, str]:
    """Return, by record type, the common prefix of the names of key and value schema, such as ``offset_commit``."""
    apart = {TRANSACTION_TOPIC: _OF_TRANSACTIONS, SHARE_STATE_TOPIC: _OF_SHARE_STATES}
    others = {name for names in apart.values() for name in names}
    names = apart.get(topic) or [name for name in _names("_key") if name not in others]
    kinds = {_module(name).RECORD_TYPE: name.removesuffix("_key") for name in names}
    if topic == OFFSETS_TOPIC:
        kinds[_OLD_OFFSET_KEY] = "offset_commit"
    return kinds


@cache
def _metadata_kinds() -> dict[int, str]:
    return {_module(name).RECORD_TYPE: name for name in _names("_record")}


def _title(name: str) -> str:
    """Return Kafka's name of a schema, such as ``OffsetCommit``."""
    return "".join(part.capitalize() for part in name.split("_"))


def _plain(value: Any) -> Any:
    """Convert a message to JSON's types. UUIDs are formatted as in Kafka's tools."""
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        hidden = SECRET_FIELDS & fields.keys()
        if is_secret_config(str(fields.get("name", ""))) and fields.get("value") is not None:
            hidden |= {"value"}
        return {name: HIDDEN if name in hidden else _plain_field(name, field) for name, field in fields.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _plain_field(name: str, value: Any) -> Any:
    return _id_text(name, value) if isinstance(value, bytes) else _plain(value)


def _id_text(name: str, value: bytes) -> Any:
    return uuid_text(value) if name.endswith("id") and len(value) == _UUID_BYTES else value
