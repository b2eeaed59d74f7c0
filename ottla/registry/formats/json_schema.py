"""JSON Schemas of all drafts, checked and resolved by the library ``jsonschema``. A schema without ``$schema`` is treated as Draft
7."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7, specification_with

from ottla.client.schema_registry.strict_json import TOO_DEEP
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.formats.json_compatibility import unreadable
from ottla.registry.formats.json_nodes import NodeBudget, SchemaNode, TooComplex, node
from ottla.registry.formats.json_text import canonical, loaded
from ottla.registry.formats.parsed import MAX_REASONS, invalid
from ottla.registry.schema_text import JSON, NamedText

MAX_QUOTED_CHARS: Final = 200
"""Maximum length of a reference that an error quotes."""


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed JSON Schema (implements `Parsed`)."""

    text: str
    normalized: str
    schema: Any
    node: SchemaNode

    def unreadable(self, writer: JsonSchema) -> list[str]:
        try:
            return unreadable(self.node, writer.node)[:MAX_REASONS]
        except TooComplex as error:
            raise RegistryError(RegistryCode.INVALID_SCHEMA, f"the two schemas are too complex to compare them: {error}") from None
        except (Unresolvable, ValueError, RecursionError) as error:
            raise invalid(JSON, _reason(error)) from None

    def serialized(self) -> str | None:
        return None


def parse_json(text: str, references: Sequence[NamedText]) -> JsonSchema:
    """Parse and check a JSON Schema. Raises `RegistryError`."""
    try:
        schema = loaded(text)
        if not isinstance(schema, dict | bool):
            raise ValueError("expected a JSON object, true or false")
        validator_for(schema, default=Draft7Validator).check_schema(schema)
        registry: Registry[Any] = Registry(retrieve=_unknown)
        for reference in references:
            registry = registry.with_resource(reference.name, _resource(loaded(reference.text)))
        root = node(schema, registry.resolver_with_root(_resource(schema)), NodeBudget())
        return JsonSchema(
            text=canonical(text),
            normalized=json.dumps(schema, separators=(",", ":"), ensure_ascii=False, sort_keys=True),
            schema=schema,
            node=root,
        )
    except SchemaError as error:
        raise invalid(JSON, f"{error.json_path}: {error.message}") from None
    except (ValueError, RecursionError, Unresolvable, TooComplex) as error:
        raise invalid(JSON, _reason(error)) from None


def _resource(schema: Any) -> Resource[Any]:
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    specification = specification_with(dialect, default=DRAFT7) if isinstance(dialect, str) else DRAFT7
    return specification.create_resource(schema)


def _reason(error: Exception) -> str:
    # Unresolvable itself means an unknown schema; its subclasses mean a missing part of a known schema.
    if isinstance(error, Unresolvable) and type(error) is Unresolvable:
        return f"{error.ref[:MAX_QUOTED_CHARS]!r} is not among the references of the schema, and the registry fetches nothing"
    return TOO_DEEP if isinstance(error, RecursionError) else str(error) or type(error).__name__


def _unknown(uri: str) -> Resource[Any]:
    """Refuse a reference to a schema that is not among the request's references, because the registry downloads nothing."""
    raise NoSuchResource(ref=uri)
