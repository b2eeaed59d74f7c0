"""JSON Schemas of all drafts: checked and resolved by the library ``jsonschema``; without ``$schema`` they are Draft 7."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7, specification_with

from ottla.registry.errors import Code, RegistryError
from ottla.registry.formats.json_compatibility import TooComplex, unreadable
from ottla.registry.formats.json_nodes import Node, node
from ottla.registry.formats.json_text import canonical, loaded
from ottla.registry.formats.parsed import MAX_REASONS, invalid
from ottla.registry.schema_text import JSON, NamedText


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Implements `Parsed`."""

    text: str
    normalized: str
    schema: Any
    node: Node

    def unreadable(self, writer: JsonSchema) -> list[str]:
        try:
            return unreadable(self.node, writer.node)[:MAX_REASONS]
        except TooComplex:
            raise RegistryError(Code.INVALID_SCHEMA, "the two schemas are too complex to compare them") from None
        except (Unresolvable, ValueError, RecursionError) as error:
            raise invalid(JSON, error) from None

    def serialized(self) -> str | None:
        return None


def parse_json(text: str, references: Sequence[NamedText]) -> JsonSchema:
    """Parse and check a schema. Raises `RegistryError`."""
    try:
        schema = loaded(text)
        if not isinstance(schema, dict | bool):
            raise ValueError("expected a JSON object, true or false")
        validator_for(schema, default=Draft7Validator).check_schema(schema)
        registry: Registry[Any] = Registry(retrieve=_unknown)
        for reference in references:
            registry = registry.with_resource(reference.name, _resource(loaded(reference.text)))
        root = node(schema, registry.resolver_with_root(_resource(schema)))
        return JsonSchema(
            text=canonical(text),
            normalized=json.dumps(schema, separators=(",", ":"), ensure_ascii=False, sort_keys=True),
            schema=schema,
            node=root,
        )
    except SchemaError as error:
        raise invalid(JSON, f"{error.json_path}: {error.message}") from None
    except (ValueError, RecursionError, Unresolvable) as error:
        raise invalid(JSON, error or type(error).__name__) from None


def _resource(schema: Any) -> Resource[Any]:
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    specification = specification_with(dialect, default=DRAFT7) if isinstance(dialect, str) else DRAFT7
    return specification.create_resource(schema)


def _unknown(uri: str) -> Resource[Any]:
    """Refuse references to schemas that the client has not named, because the registry fetches nothing."""
    raise NoSuchResource(ref=uri)
