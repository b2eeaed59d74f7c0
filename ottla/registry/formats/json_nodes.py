"""JSON Schemas as typed nodes, in which references are resolved and defaults are filled in, for `json_compatibility`.

A schema object may restrict values by several keywords at once. A node has one kind of restriction, and an `ALL` node combines
several nodes: ``{"type": "string", "enum": ["a"]}`` becomes an `ALL` of a string node and an enum node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

ANY, NEVER, ALL, ANY_OF, ONE_OF, NOT, ENUM, CONDITION = "any", "never", "allOf", "anyOf", "oneOf", "not", "enum", "if"
STRING, NUMBER, OBJECT, ARRAY, BOOLEAN, NULL = "string", "number", "object", "array", "boolean", "null"
COMBINED: Final = (ALL, ANY_OF, ONE_OF)
_KEYWORDS: Final = {
    OBJECT: (
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
    ),
    ARRAY: (
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
    ),
    STRING: ("minLength", "maxLength", "pattern"),
    NUMBER: ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""The keywords that restrict values of one type. A schema with such a keyword but no ``type`` gets that type."""
_TYPES: Final = {STRING, NUMBER, OBJECT, ARRAY, BOOLEAN, NULL}


class TooComplex(Exception):
    """A schema has too many nodes, or a comparison too many pairs of nodes."""


MAX_DEPTH: Final = 50
"""Maximum nesting of combinations and references. Each level takes several nested calls; Python allows 1,000."""
MAX_NODES: Final = 50_000
"""Maximum number of nodes that are built from a schema. A short schema may have many nodes, because references are followed: in a
chain of definitions that each refer twice to the next definition, each definition doubles the number."""


class NodeBudget:
    """Limits the nodes that are built from one schema: when it is parsed, and again in each comparison."""

    def __init__(self) -> None:
        self.left = MAX_NODES

    def renew(self) -> None:
        self.left = MAX_NODES

    def take(self) -> None:
        if self.left <= 0:
            raise TooComplex(f"a schema has more than {MAX_NODES:,} nodes after its references are followed; leave some out")
        self.left -= 1


class SchemaNode(msgspec.Struct, frozen=True, kw_only=True):
    """A restriction of values. ``schema`` is the schema object; ``parts`` are the nodes inside a combination, condition or
    ``not``."""

    kind: str
    schema: Mapping[str, Any] = {}
    parts: tuple[SchemaNode, ...] = ()
    values: tuple[str, ...] = ()
    """The values that an ``enum`` or ``const`` allows, each encoded as JSON."""
    is_integer: bool = False
    resolver: Any = None
    """Resolves references in ``schema`` (``referencing.Resolver``)."""
    identity: int = 0
    """Identifies the schema object, so that recursive schemas are recognized."""
    budget: NodeBudget | None = None
    """The budget of the schema to which the node belongs; None for nodes without children."""

    def child(self, schema: Any) -> SchemaNode:
        """Build the node of a schema inside this node's schema."""
        return node(schema, self.resolver, self.budget or NodeBudget())


def node(schema: Any, resolver: Any, budget: NodeBudget, depth: int = 0) -> SchemaNode:
    """Build the node of a schema. Raises `TooComplex`, and `referencing.exceptions.Unresolvable` for an unknown reference."""
    budget.take()
    if schema is True or schema == {}:
        return SchemaNode(kind=ANY)
    if schema is False:
        return SchemaNode(kind=NEVER)
    if not isinstance(schema, dict):
        raise ValueError(f"{schema!r} is not a schema")
    if depth > MAX_DEPTH:
        raise ValueError(f"a reference leads to itself, or more than {MAX_DEPTH} schemas are nested or refer to each other")
    if isinstance(reference := schema.get("$ref"), str):
        found = resolver.lookup(reference)
        return node(found.contents, found.resolver, budget, depth + 1)
    parts = tuple(_parts(schema, resolver, budget, depth + 1))
    if not parts:
        return SchemaNode(kind=ANY, schema=schema)
    if len(parts) == 1:
        return parts[0]
    return SchemaNode(kind=ALL, parts=parts, schema=schema, resolver=resolver, identity=id(schema), budget=budget)


def _parts(schema: dict[str, Any], resolver: Any, budget: NodeBudget, depth: int) -> Iterator[SchemaNode]:
    def made(kind: str, **fields: Any) -> SchemaNode:
        return SchemaNode(kind=kind, schema=schema, resolver=resolver, identity=id(schema), budget=budget, **fields)

    if isinstance(values := schema.get("enum"), list):
        yield made(ENUM, values=tuple(_value(value) for value in values))
    if "const" in schema:
        yield made(ENUM, values=(_value(schema["const"]),))
    for kind in COMBINED:
        if isinstance(members := schema.get(kind), list):
            yield made(kind, parts=tuple(node(member, resolver, budget, depth) for member in members))
    if "not" in schema:
        yield made(NOT, parts=(node(schema["not"], resolver, budget, depth),))
    if "if" in schema and ("then" in schema or "else" in schema):
        branches = (schema["if"], schema.get("then", True), schema.get("else", True))
        yield made(CONDITION, parts=tuple(node(branch, resolver, budget, depth) for branch in branches))
    types = schema.get("type")
    if isinstance(types, list):
        members = tuple(_typed(name, made) for name in types)
        yield members[0] if len(members) == 1 else made(ANY_OF, parts=members)
    elif isinstance(types, str):
        yield _typed(types, made)
    else:
        yield from (made(kind) for kind, keywords in _KEYWORDS.items() if any(word in schema for word in keywords))


def _typed(name: str, made: Any) -> SchemaNode:
    if name == "integer":
        integer: SchemaNode = made(NUMBER, is_integer=True)
        return integer
    if name not in _TYPES:
        raise ValueError(f"{name!r} is not a type")
    typed: SchemaNode = made(name)
    return typed


def _value(value: Any) -> str:
    """Return JSON with sorted keys, so that equal values are equal texts."""
    return msgspec.json.encode(value, order="sorted").decode()


def matched(node_of_object: SchemaNode, name: str) -> SchemaNode | None:
    """Return the restriction of a property that is not in ``properties``: of the first matching pattern, else of additional
    properties; None if neither is set."""
    for pattern, schema in (node_of_object.schema.get("patternProperties") or {}).items():
        try:
            if re.search(pattern, name):
                return node_of_object.child(schema)
        except re.error:
            # Skip a pattern that Python cannot compile: patterns follow ECMA 262, which Python supports only in part.
            continue
    additional = additional_of(node_of_object, "additionalProperties", "unevaluatedProperties")
    return None if isinstance(additional, bool) else node_of_object.child(additional)


def additional_of(found: SchemaNode, *keywords: str) -> Any:
    """Return the schema for additional properties or items: the first of ``keywords`` that is set, else True."""
    value = next((found.schema[word] for word in keywords if word in found.schema), True)
    return True if value == {} else value


def items_of(found: SchemaNode) -> tuple[Sequence[Any], Any]:
    """Return the schemas of the first items of an array, and the schema of all further items."""
    schema = found.schema
    if isinstance(first := schema.get("prefixItems"), list):
        rest = schema.get("items", schema.get("unevaluatedItems", True))
        return first, True if rest == {} else rest
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, additional_of(found, "additionalItems", "unevaluatedItems")
    rest = schema.get("unevaluatedItems", True) if "items" not in schema else items
    return (), True if rest == {} else rest
