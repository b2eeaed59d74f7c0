"""The stored form of a schema: its type, its text, and references to schemas of other subjects."""

from __future__ import annotations

from typing import Final

import msgspec

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)
"""The schema types, in the order in which Confluent's registry lists them."""
MAX_NUMBER: Final = (1 << 31) - 1
"""Maximum schema id and version. Serialized values contain the id in four bytes, which clients decode as a signed integer."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A schema of another subject that a schema uses. ``name`` is the name in the schema's text: the full name of an Avro type, the
    URI of a JSON Schema, the path of a Protobuf import."""

    name: str
    subject: str
    version: int


class SchemaText(msgspec.Struct, frozen=True, kw_only=True):
    """The type, text and references of a schema. Equal schemas have the same id in all subjects. ``metadata`` and ``rules`` are
    JSON, which the registry only stores for clients."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rules: str | None = None

    @property
    def size_bytes(self) -> int:
        """Approximate size of the schema in memory, in bytes."""
        return len(self.text) + len(self.metadata or "") + len(self.rules or "")


class NamedText(msgspec.Struct, frozen=True, kw_only=True):
    """A referenced schema under the name by which it is referenced."""

    name: str
    text: str


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject. A soft-deleted version is hidden, and its schema id stays valid."""

    subject: str
    version: int
    schema_id: int
    schema: SchemaText
    is_deleted: bool = False
    identity: bytes = b""
    """A digest that is the same for equal schemas (`formats.types.identity`), computed at replay."""
