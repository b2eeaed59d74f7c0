"""A request to the registry, and the schemas in its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.records import opaque
from ottla.registry.schema_text import AVRO, KINDS, Reference, SchemaText

MAX_PARAMETERS: Final = 20
_TRUE: Final = ("true", "1", "yes")
_REFUSED_FIELDS: Final = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")


class RegistryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP request. ``path`` has the segments of the path after unescaping, so a segment may contain a slash."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    body: bytes

    def flag(self, name: str) -> bool:
        """Whether a query parameter is true."""
        return self.query.get(name, "").lower() in _TRUE

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < 11 else default

    def json(self) -> Any:
        """Decode the request's body as JSON. Raises `RegistryError`."""
        try:
            return msgspec.json.decode(self.body)
        except RecursionError:
            raise RegistryError(RegistryCode.UNPROCESSABLE, "the body is nested too deeply") from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise RegistryError(RegistryCode.UNPROCESSABLE, "the body is not JSON") from None


def parsed_target(target: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Parse the path and query string of a request's target. Raises `RegistryError`."""
    path, _, query = target.partition("?")
    try:
        parts = tuple(unquote(part, errors="strict") for part in path.strip("/").split("/"))
    except UnicodeDecodeError:
        raise RegistryError(RegistryCode.INVALID_SUBJECT, f"the path {path[:80]!r} is not UTF-8") from None
    try:
        return parts if parts != ("",) else (), dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        raise RegistryError(RegistryCode.UNPROCESSABLE, f"at most {MAX_PARAMETERS} query parameters are allowed") from None


class _Body(msgspec.Struct, kw_only=True):
    schema: str
    kind: str | None = msgspec.field(default=None, name="schemaType")
    references: list[Reference] | None = None
    metadata: Any = None
    rules: Any = msgspec.field(default=None, name="ruleSet")
    id: int | None = None
    version: int | None = None


class SubmittedSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The schema in a request. Ids and versions below 1 become None: the registry chooses them."""

    schema: SchemaText
    schema_id: int | None
    version: int | None


def submitted_schema(request: RegistryRequest) -> SubmittedSchema:
    """Decode the schema in the body of a request. Raises `RegistryError`."""
    body = request.json()
    if isinstance(body, dict) and (refused := next((name for name in _REFUSED_FIELDS if body.get(name)), None)):
        raise RegistryError(RegistryCode.UNPROCESSABLE, f"this registry does not have {refused}; leave it out")
    try:
        found = msgspec.convert(body, _Body)
    except msgspec.ValidationError as error:
        raise RegistryError(RegistryCode.UNPROCESSABLE, f"the body is not a schema: {error}") from None
    kind = (found.kind or AVRO).upper()
    if kind not in KINDS:
        raise RegistryError(RegistryCode.UNPROCESSABLE, f"unknown schema type {kind[:40]!r}; the types are {', '.join(KINDS)}")
    schema = SchemaText(
        kind=kind,
        text=found.schema,
        references=tuple(found.references or ()),
        metadata=opaque(found.metadata),
        rules=opaque(found.rules),
    )
    return SubmittedSchema(
        schema=schema,
        schema_id=found.id if found.id is not None and found.id > 0 else None,
        version=found.version if found.version is not None and found.version > 0 else None,
    )
