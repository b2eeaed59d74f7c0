"""Finds versions and schemas in the registry's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ottla.client.schema_registry.references import MAX_REFERENCES, TooManyReferences, resolved
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.schema_text import AVRO, MAX_NUMBER, NamedText, Reference, SchemaText, Version
from ottla.registry.state import RegistryState

LATEST: Final = ("latest", "-1")


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(RegistryCode.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def found_versions(state: RegistryState, subject: str, *, deleted: bool) -> list[Version]:
    """Return the versions of a subject. Raises `RegistryError` if the subject has no version."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    return versions


def found_version(state: RegistryState, subject: str, text: str, *, deleted: bool) -> Version:
    """Return the version that ``text`` names, a number or ``latest``. Raises `RegistryError`."""
    is_latest = text in LATEST
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    if not is_latest and not 0 < number <= MAX_NUMBER:
        raise RegistryError(
            RegistryCode.INVALID_VERSION,
            f"The specified version '{text[:40]}' is not a valid version id. Allowed values are between [1, 2^31-1] and the string"
            ' "latest"',
        )
    versions = found_versions(state, subject, deleted=deleted)
    if is_latest:
        return versions[-1]
    for version in versions:
        if version.version == number:
            return version
    raise RegistryError(RegistryCode.VERSION_NOT_FOUND, f"Version {number} not found.")


def references_of(state: RegistryState, references: Sequence[Reference]) -> list[NamedText]:
    """Return the texts of all schemas to which ``references`` lead, each after the schemas that it uses. Raises `RegistryError`."""

    def resolve(reference: Reference) -> tuple[SchemaText, Sequence[Reference]]:
        version = state.subjects.get(reference.subject, {}).get(reference.version)
        if reference.version == -1:
            version = next(reversed(state.versions(reference.subject)), None)
        if version is None:
            raise RegistryError(
                RegistryCode.INVALID_SCHEMA,
                f"the reference {reference.name!r} is unknown: subject {reference.subject!r} has no version {reference.version}",
            )
        return version.schema, version.schema.references

    try:
        found = resolved(references, resolve)
    except TooManyReferences:
        raise RegistryError(
            RegistryCode.INVALID_SCHEMA, f"a schema refers to at most {MAX_REFERENCES:,} schemas, directly or through others"
        ) from None
    return [NamedText(name=name, text=schema.text) for name, schema in found.items()]


def found_by_schema(state: RegistryState, subject: str, schema: SchemaText, *, deleted: bool) -> Version:
    """Return the newest version of a subject whose schema equals the given schema. Raises `RegistryError`."""
    versions, identity = found_versions(state, subject, deleted=deleted), state.identity(schema)
    for version in reversed(versions):
        if version.identity == identity:
            return version
    raise RegistryError(RegistryCode.SCHEMA_NOT_FOUND, "Schema not found")


def schema_fields(schema: SchemaText) -> dict[str, Any]:
    """Return a schema's fields for a response. As in Confluent's registry the type is omitted for Avro schemas."""
    fields: dict[str, Any] = {} if schema.kind == AVRO else {"schemaType": schema.kind}
    if schema.references:
        fields["references"] = schema.references
    for name, text in (("metadata", schema.metadata), ("ruleSet", schema.rules)):
        if text is not None:
            fields[name] = msgspec.Raw(text.encode())
    return {**fields, "schema": schema.text}


def version_fields(version: Version) -> Mapping[str, Any]:
    fields = {"subject": version.subject, "version": version.version, "id": version.schema_id}
    hidden = {"deleted": True} if version.is_deleted else {}
    return {**fields, **schema_fields(version.schema), **hidden}
