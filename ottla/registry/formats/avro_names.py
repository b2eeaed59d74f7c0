"""Rewrites Avro schemas: into the text that Avro for Java prints (``Schema.toString``), which Confluent's registry stores, and into
a self-contained schema with full names, which libraries parse.

The module needs no library, so that the registry compares many schemas quickly at start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.schema_registry.strict_json import NotJson, parsed_json

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_RESERVED: Final = {
    "record": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "error": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "enum": {"type", "name", "namespace", "doc", "symbols", "default", "aliases"},
    "fixed": {"type", "name", "namespace", "doc", "size", "aliases"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
"""The attributes that Avro defines for each type, written in a fixed order. All others are properties, which are written last."""
_OF_FIELDS: Final = {"name", "type", "doc", "default", "order", "aliases"}


class AvroError(ValueError):
    """The text is not an Avro schema. The message is one line."""


def loaded(text: str) -> Any:
    """Parse the JSON of a schema, or the bare name of a primitive type. Raises `AvroError`."""
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return parsed_json(text)
    except NotJson as error:
        raise AvroError(f"the schema is not JSON ({error})") from None


def dumped(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def canonical(text: str) -> str:
    """Return the schema as Avro for Java prints it: no white space, attributes in a fixed order, names as short as possible. Types
    that the schema does not define are kept as names, because references define them. Raises `AvroError`."""
    return dumped(_walk(loaded(text), _Writer({}, is_full=False), None))


def self_contained(text: str, references: Sequence[str]) -> Any:
    """Return the schema with full names, in which the first use of each referenced type has its definition. Raises `AvroError`."""
    known: dict[str, Any] = {}
    for reference in references:
        collecting = _Writer(known, is_full=True)
        _walk(loaded(reference), collecting, None)
        known |= collecting.defined
    return _walk(loaded(text), _Writer(known, is_full=True), None)


class _Writer:
    """State of rewriting one schema: the types that the schema has defined so far, and how names are written."""

    def __init__(self, known: Mapping[str, Any], *, is_full: bool) -> None:
        self.known = known
        self.is_full = is_full
        self.defined: dict[str, Any] = {}
        self.is_inlining = False
        """Whether the rewriter is inside a referenced type's definition, whose inner types may be defined already."""

    def name(self, full: str, space: str | None) -> str:
        """Return the name of a type inside the namespace ``space``. A type named like a primitive type needs its full name."""
        own, _, simple = full.rpartition(".")
        return simple if not self.is_full and own == (space or "") and simple not in PRIMITIVES else full


def full_name(name: str, space: str | None) -> str:
    """Return the full name of a type named ``name`` in the namespace ``space``."""
    return name if "." in name or not space else f"{space}.{name}"


def _walk(schema: Any, writer: _Writer, space: str | None) -> Any:
    try:
        return _rewritten(schema, writer, space)
    except RecursionError:
        raise AvroError("the schema's types are nested too deeply") from None


def _rewritten(schema: Any, writer: _Writer, space: str | None) -> Any:
    if isinstance(schema, str):
        return _by_name(schema, writer, space)
    if isinstance(schema, list):
        return [_rewritten(branch, writer, space) for branch in schema]
    if not isinstance(schema, dict):
        raise AvroError(f"{json.dumps(schema)[:60]} is not a type")
    kind = schema.get("type")
    if isinstance(kind, dict | list):
        # A type inside a type, as in {"type": {"type": "string"}}. Drop the outer type, whose attributes mean nothing in Avro.
        return _rewritten(kind, writer, space)
    if kind in _NAMED:
        return _named(schema, kind, writer, space)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        if inner not in schema:
            raise AvroError(f"the {kind} has no {inner}")
        return {"type": kind, inner: _rewritten(schema[inner], writer, space), **_properties(schema, _RESERVED[kind])}
    if not isinstance(kind, str):
        raise AvroError("a type has no attribute 'type'")
    properties = _properties(schema, {"type"})
    if kind in PRIMITIVES:
        return {"type": kind, **properties} if properties else kind
    return _by_name(kind, writer, space)


def _by_name(name: str, writer: _Writer, space: str | None) -> Any:
    if name in PRIMITIVES:
        return name
    full = full_name(name, space)
    if full not in writer.defined and full not in writer.known and (name in writer.defined or name in writer.known):
        # Inside a namespace, a simple name may also refer to a type that has no namespace.
        full = name
    if full in writer.defined or full not in writer.known:
        return writer.name(full, space)
    was_inlining, writer.is_inlining = writer.is_inlining, True
    definition = _rewritten(writer.known[full], writer, None)
    writer.is_inlining = was_inlining
    return definition


def _named(schema: dict[str, Any], kind: str, writer: _Writer, space: str | None) -> Any:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise AvroError(f"the {kind} has no name")
    given = schema.get("namespace", space)
    full = full_name(name, given if isinstance(given, str) else None)
    own, _, simple = full.rpartition(".")
    if full in writer.defined and writer.is_inlining:
        return writer.name(full, space)
    if full in writer.defined:
        raise AvroError(f"the type {full} is defined twice")
    written: dict[str, Any] = {"type": kind, "name": full if writer.is_full else simple}
    if not writer.is_full and own != (space or ""):
        written["namespace"] = own
    if isinstance(schema.get("doc"), str):
        written["doc"] = schema["doc"]
    writer.defined[full] = written
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise AvroError(f"the record {full} has no fields")
        written["fields"] = [_field(field, full, writer, own or None) for field in fields]
    for attribute in ("symbols", "size", "default"):
        if attribute in schema and attribute in _RESERVED[kind]:
            written[attribute] = schema[attribute]
    written |= _properties(schema, _RESERVED[kind])
    aliases = schema.get("aliases")
    if isinstance(aliases, list) and aliases:
        written["aliases"] = [writer.name(full_name(str(alias), own or None), own or None) for alias in aliases]
    return written


def _field(field: Any, record: str, writer: _Writer, space: str | None) -> dict[str, Any]:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
        raise AvroError(f"a field of {record} has no name or no type")
    written = {"name": field["name"], "type": _rewritten(field["type"], writer, space)}
    if isinstance(field.get("doc"), str):
        written["doc"] = field["doc"]
    if "default" in field:
        written["default"] = field["default"]
    if field.get("order", "ascending") != "ascending":
        written["order"] = field["order"]
    if field.get("aliases"):
        written["aliases"] = field["aliases"]
    return {**written, **_properties(field, _OF_FIELDS)}


def _properties(schema: dict[str, Any], reserved: set[str]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in reserved}
