"""Validates values by a registered JSON Schema. The module needs the package jsonschema.

A schema of a registry may be hostile. Its regular expressions are RE2's, which take linear time: an expression of Python's ``re``
may take exponential time, in which no other thread of the process runs. A URI in a schema never causes a request to its host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urljoin

import attrs
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft7Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from ottla.arguments import BadArgument
from ottla.client.records.expressions import pattern
from ottla.client.schema_registry.registry_client import RegisteredSchema
from ottla.client.schema_registry.strict_json import parsed_json

DATA: Final = {"const", "default", "enum", "examples"}
"""Keywords with values. A member ``pattern`` of such a value is not an expression."""
SCHEMAS_BY_NAME: Final = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
"""Keywords with an object of schemas, whose names are not keywords."""


def validator(schema: RegisteredSchema, referenced: Mapping[str, RegisteredSchema]) -> Any:
    """Return jsonschema's validator of a schema, with the schemas to which it refers by reference name. Raises the exceptions of
    jsonschema for a schema that is invalid, and `BadArgument` for one that cannot be checked in linear time."""
    root = parsed_json(schema.text)
    chosen = _checked_dialect(root)
    base = root.get("$id", "") if isinstance(root, dict) else ""
    # A registry without a function that retrieves documents never connects to a host.
    documents: Registry[Any] = Registry()
    names = _names(root)
    for name, one in referenced.items():
        contents = parsed_json(one.text)
        _checked_dialect(contents)
        resource = Resource.from_contents(contents, default_specification=DRAFT7)
        names |= _names(resource.contents)
        documents = documents.with_resources([(uri, resource) for uri in {name, urljoin(base, name)}])
    if {"patternProperties", "unevaluatedProperties"} <= names:
        # For unevaluatedProperties the library runs the expressions of patternProperties with Python's re, and follows $ref from
        # one document to another.
        raise BadArgument("patternProperties and unevaluatedProperties in a schema and its references are not supported")
    extended = extend(chosen, KEYWORDS)
    extended.evolve = _evolved
    return extended(root, registry=documents)


def _checked_dialect(document: Any) -> Any:
    """Return jsonschema's class for the dialect of a document. Raises SchemaError for an invalid schema, and `BadArgument` for an
    expression that RE2 does not accept."""
    chosen = validator_for(document if isinstance(document, dict) else {}, default=Draft7Validator)
    # Without a format checker, because the format "regex" would compile the expressions with Python's re.
    chosen.check_schema(document, format_checker=None)
    pending: list[Any] = [document]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(one)
        if not isinstance(one, dict):
            continue
        if isinstance(one.get("pattern"), str):
            pattern(one["pattern"], is_utf8=True)
        for keyword, below in one.items():
            if keyword in DATA:
                continue
            if keyword not in SCHEMAS_BY_NAME or not isinstance(below, dict):
                pending.append(below)
                continue
            if keyword == "patternProperties":
                for expression in below:
                    pattern(expression, is_utf8=True)
            pending.extend(below.values())
    return chosen


def _names(document: Any) -> set[str]:
    """Return the names of all members of objects."""
    pending: list[Any] = [document]
    names: set[str] = set()
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            names.update(one)
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
    return names


def _evolved(of: Any, **changes: Any) -> Any:
    """Return the validator of a subschema. jsonschema's method changes to its own keywords at each ``$schema``: in a document of
    the registry, and in a metaschema, which may refer back to the root schema by ``$dynamicRef``."""
    return attrs.evolve(of, **changes)


def _matches(expression: str, text: str) -> bool:
    return pattern(expression, is_utf8=True).search(text.encode()) is not None


def _pattern(of: Any, expression: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    if of.is_type(value, "string") and not _matches(expression, value):
        yield ValidationError(f"{value!r} does not match {expression!r}")


def _pattern_properties(of: Any, patterns: dict[str, Any], value: Any, schema: Any) -> Iterator[ValidationError]:
    if not of.is_type(value, "object"):
        return
    for expression, subschema in patterns.items():
        for name, one in value.items():
            if _matches(expression, name):
                yield from of.descend(one, subschema, path=name, schema_path=expression)


def _additional_properties(of: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not of.is_type(value, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, one in value.items():
        if name in known or any(_matches(expression, name) for expression in patterns):
            continue
        if of.is_type(allowed, "object"):
            yield from of.descend(one, allowed, path=name)
        elif not allowed:
            yield ValidationError(f"the property {name!r} is not in the schema")


def _unique_items(of: Any, wanted: bool, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Compare the items by hash: the library compares each pair of objects, which takes minutes for some thousand objects."""
    if wanted and of.is_type(value, "array") and len({_hashable(item) for item in value}) < len(value):
        yield ValidationError("the array has equal items")


def _hashable(value: Any) -> Any:
    """Return a value that is equal for equal JSON values: 1 equals 1.0, but not true."""
    if isinstance(value, dict):
        return "object", frozenset((name, _hashable(one)) for name, one in value.items())
    if isinstance(value, list):
        return "array", tuple(_hashable(one) for one in value)
    return isinstance(value, bool), value


KEYWORDS: Final = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
"""Keywords whose own functions in the library may take exponential or quadratic time."""
