"""The records of the topic ``_schemas``, in the format of Confluent's registry, so that either registry can read the other's topic.

Keys and values are JSON. A record without a value (tombstone) deletes its key's state.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from ottla.registry.schema_text import AVRO, Reference, SchemaText, Version

TOPIC: Final = "_schemas"
_MAGIC_OF_SCHEMAS: Final = 1
"""The field ``magic`` of the keys of schema records in Confluent's format. Keys of other records have 0."""
SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a record. ``subject`` is None for the global config and mode; ``version`` is set for schemas only."""

    keytype: str
    subject: str | None = None
    version: int | None = None


class _SchemaValue(msgspec.Struct, kw_only=True):
    subject: str
    version: int
    id: int
    schema: str
    kind: str = msgspec.field(default=AVRO, name="schemaType")
    references: list[Reference] | None = None
    metadata: Any = None
    rules: Any = msgspec.field(default=None, name="ruleSet")
    deleted: bool = False


class RegistryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record for the topic ``_schemas``; a tombstone if ``value`` is None."""

    key: bytes
    value: bytes | None


def decoded_key(data: bytes | None) -> Key | None:
    """Decode a key. Returns None for anything that is not a key of Confluent's format; the registry ignores such records."""
    try:
        return msgspec.json.decode(data or b"", type=Key)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def decoded_version(value: bytes) -> Version | None:
    """Decode the value of a schema's record; None if the value is malformed."""
    try:
        found = msgspec.json.decode(value, type=_SchemaValue)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    schema = SchemaText(
        kind=found.kind,
        text=found.schema,
        references=tuple(found.references or ()),
        metadata=opaque(found.metadata),
        rules=opaque(found.rules),
    )
    return Version(subject=found.subject, version=found.version, schema_id=found.id, schema=schema, is_deleted=found.deleted)


def decoded_fields(value: bytes) -> dict[str, Any] | None:
    """Decode the value of a config, mode or deletion record; None if the value is malformed."""
    try:
        found = msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def opaque(value: Any) -> str | None:
    """Return the JSON of a value that the registry does not interpret, such as metadata."""
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def version_record(version: Version) -> RegistryRecord:
    """Encode a version as Confluent's registry does: fields in the same order, the type AVRO and empty references omitted."""
    schema = version.schema
    value: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.schema_id}
    if schema.kind != AVRO:
        value["schemaType"] = schema.kind
    if schema.references:
        value["references"] = schema.references
    for name, text in (("metadata", schema.metadata), ("ruleSet", schema.rules)):
        if text is not None:
            value[name] = msgspec.Raw(text.encode())
    value |= {"schema": schema.text, "deleted": version.is_deleted}
    return RegistryRecord(key=_version_key(version.subject, version.version), value=msgspec.json.encode(value))


def version_tombstone(subject: str, version: int) -> RegistryRecord:
    return RegistryRecord(key=_version_key(subject, version), value=None)


def _version_key(subject: str, version: int) -> bytes:
    return msgspec.json.encode({"keytype": SCHEMA, "subject": subject, "version": version, "magic": _MAGIC_OF_SCHEMAS})


def subject_record(keytype: str, subject: str | None, value: dict[str, Any] | None) -> RegistryRecord:
    """Encode a record of a subject. ``keytype`` is `CONFIG`, `MODE`, or `DELETE_SUBJECT` for a soft
    deletion. Without a ``value`` the record is a tombstone."""
    key = msgspec.json.encode({"keytype": keytype, "subject": subject, "magic": 0})
    return RegistryRecord(key=key, value=None if value is None else msgspec.json.encode(value))
