"""Compares a new schema with versions of its subject. The schemas are collected from the state first and compared later without the
registry's lock, because a compiler may need a second for each schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from ottla.registry.compatibility import reasons
from ottla.registry.errors import RegistryError
from ottla.registry.formats.parsed import Parsed
from ottla.registry.queries import references_of
from ottla.registry.schema_text import NamedText, SchemaText, Version
from ottla.registry.state import RegistryState

ParseText = Callable[[str, str, Sequence[NamedText]], Parsed]


class CompleteSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema with the texts of all schemas to which it refers."""

    schema: SchemaText
    references: tuple[NamedText, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A new schema, and the versions to compare it with: their numbers and schemas, oldest first."""

    level: str
    new: CompleteSchema
    old: tuple[tuple[int, CompleteSchema], ...]


def comparison_of(state: RegistryState, schema: SchemaText, versions: Sequence[Version], level: str) -> Comparison:
    """Collect the schemas that a comparison needs. Raises `RegistryError` if a reference is unknown."""
    old = []
    for version in versions:
        with _errors_of_version(version.version):
            old.append((version.version, _complete(state, version.schema)))
    return Comparison(level=level, new=_complete(state, schema), old=tuple(old))


@contextmanager
def _errors_of_version(number: int) -> Iterator[None]:
    """Let errors name the stored version, which another program may have written, instead of the new schema."""
    try:
        yield
    except RegistryError as error:
        text = f"the stored version {number}, with which the schema would be compared, is not valid; delete that version ({error})"
        raise RegistryError(error.code, text) from None


def _complete(state: RegistryState, schema: SchemaText) -> CompleteSchema:
    return CompleteSchema(schema=schema, references=tuple(references_of(state, schema.references)))


def incompatible(comparison: Comparison, parse: ParseText) -> list[str]:
    """Return why the compatibility level does not allow the new schema after the old schemas, which are compared newest first.
    Raises `RegistryError`."""

    def parsed(complete: CompleteSchema) -> Parsed:
        return parse(complete.schema.kind, complete.schema.text, complete.references)

    new, kind = parsed(comparison.new), comparison.new.schema.kind
    for number, old in reversed(comparison.old):
        if old.schema.kind != kind:
            found = [f"the type {old.schema.kind} has become {kind}"]
        else:
            with _errors_of_version(number):
                earlier = parsed(old)
            found = reasons(comparison.level, new, earlier)
        if found:
            return [*found, f"{{compatibility: '{comparison.level}', version: {number}}}"]
    return []
