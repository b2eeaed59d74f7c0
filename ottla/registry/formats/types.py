"""The schema types by name. The first schema of a type imports the type's library."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.formats import avro_names, json_text
from ottla.registry.formats.parsed import Parse, Parsed
from ottla.registry.formats.protobuf_tokens import tokens
from ottla.registry.schema_text import AVRO, JSON, KINDS, PROTOBUF, NamedText, SchemaText


def parse(kind: str, text: str, references: Sequence[NamedText]) -> Parsed:
    """Parse a schema. Raises `RegistryError`."""
    return _parser(kind)(text, references)


def _parser(kind: str) -> Parse:
    if kind == AVRO:
        from ottla.registry.formats.avro_schema import parse_avro

        return parse_avro
    if kind == JSON:
        from ottla.registry.formats.json_schema import parse_json

        return parse_json
    if kind == PROTOBUF:
        from ottla.registry.formats.protobuf_schema import parse_protobuf

        return parse_protobuf
    raise RegistryError(RegistryCode.UNPROCESSABLE, f"unknown schema type {kind[:40]!r}; the types are {', '.join(KINDS)}")


def identity(schema: SchemaText) -> bytes:
    """Return a digest that is the same for equal schemas. It ignores white space, comments and the order of references, except for
    an invalid text."""
    references = sorted((one.name, one.subject, one.version) for one in schema.references)
    parts = (schema.kind, _common_text(schema.kind, schema.text), references, schema.metadata, schema.rules)
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def _common_text(kind: str, text: str) -> str:
    try:
        if kind == AVRO:
            return avro_names.canonical(text)
        if kind == JSON:
            return json_text.canonical(text)
    except ValueError:
        return text
    return tokens(text) if kind == PROTOBUF else text
