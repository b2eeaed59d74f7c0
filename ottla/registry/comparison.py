"""Compares a schema with versions of its subject.

A comparison is collected from the state, and carried out without it, because a compiler may need a second for each schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ottla.registry.compatibility import reasons
from ottla.registry.formats.parsed import Parsed
from ottla.registry.queries import references_of
from ottla.registry.schema_text import NamedText, SchemaText, Version
from ottla.registry.state import State

ParseText = Callable[[str, str, Sequence[NamedText]], Parsed]
"""Parses a schema (`formats.types.parse`)."""


class CompleteSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema with the texts of all schemas to which it refers."""

    schema: SchemaText
    references: tuple[NamedText, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A new schema, and the versions with which the compatibility level compares it, oldest first, by number."""

    level: str
    new: CompleteSchema
    old: tuple[tuple[int, CompleteSchema], ...]


def comparison_of(state: State, schema: SchemaText, versions: Sequence[Version], level: str) -> Comparison:
    """Collect what a comparison needs. Raises `RegistryError` if a reference is unknown."""
    old = tuple((version.version, _complete(state, version.schema)) for version in versions)
    return Comparison(level=level, new=_complete(state, schema), old=old)


def _complete(state: State, schema: SchemaText) -> CompleteSchema:
    return CompleteSchema(schema=schema, references=tuple(references_of(state, schema.references)))


def incompatible(comparison: Comparison, parse: ParseText) -> list[str]:
    """Return why the level does not allow the new schema after the old ones, newest first. Raises `RegistryError`."""

    def parsed(complete: CompleteSchema) -> Parsed:
        return parse(complete.schema.kind, complete.schema.text, complete.references)

    new, kind = parsed(comparison.new), comparison.new.schema.kind
    for number, old in reversed(comparison.old):
        if old.schema.kind != kind:
            found = [f"the type {old.schema.kind} has become {kind}"]
        else:
            found = reasons(comparison.level, new, parsed(old))
        if found:
            return [*found, f"{{compatibility: '{comparison.level}', version: {number}}}"]
    return []
