"""The changes of the registry. Each command checks a request against the state and returns records; it changes nothing itself."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ottla.registry.comparison import Comparison, comparison_of
from ottla.registry.compatibility import LEVELS, compared
from ottla.registry.errors import Code, RegistryError
from ottla.registry.queries import found_version, found_versions
from ottla.registry.records import (
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    Record,
    subject_record,
    version_record,
    version_tombstone,
)
from ottla.registry.schema_text import SchemaText, Version
from ottla.registry.state import CONTEXT_PREFIX, State

MAX_SCHEMAS_BYTES: Final = 256 << 20
"""Maximum size of all schemas together, in bytes, because they are kept in memory."""
MAX_SUBJECT_CHARS: Final = 1_000
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The records to append, and the response after they are replayed."""

    records: list[Record] = []
    response: Any


def check_subject(subject: str) -> str:
    """Return the subject's name in the default context. Raises `RegistryError`."""
    if subject.startswith(CONTEXT_PREFIX):
        context, _, name = subject[len(CONTEXT_PREFIX) - 1 :].partition(":")
        if context != ".":
            raise RegistryError(
                Code.INVALID_SUBJECT, f"{subject[:80]!r} names the context {context[:60]!r}; this registry has no contexts"
            )
        subject = name
    if not subject or len(subject) > MAX_SUBJECT_CHARS or not subject.isprintable():
        raise RegistryError(Code.INVALID_SUBJECT, f"{subject[:80]!r} is not a subject: give 1 to {MAX_SUBJECT_CHARS} characters")
    return subject


def _check_writable(state: State, subject: str | None) -> None:
    mode = state.mode(subject)
    if mode.startswith("READONLY"):
        raise RegistryError(Code.NOT_PERMITTED, f"Subject {subject} is in read-only mode")


# schemas


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A schema to register. ``schema_id`` and ``version`` are set in mode IMPORT only."""

    subject: str
    schema: SchemaText
    schema_id: int | None = None
    version: int | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison, and the reasons against the new schema that it has found."""

    comparison: Comparison
    reasons: list[str]


class NotChecked(Exception):
    """A schema can only be registered after a comparison that was not carried out yet."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self.comparison = comparison


def register(state: State, wanted: Registration, checked: Checked | None) -> Change:
    """Register a schema, and respond with its id; an equal schema of the subject keeps its id.

    Raises `RegistryError`, and `NotChecked` if ``checked`` is not the comparison that the state needs.
    """
    subject, schema = wanted.subject, wanted.schema
    _check_writable(state, subject)
    is_import = state.mode(subject) == "IMPORT"
    if is_import != (wanted.schema_id is not None):
        needs = "is in import mode; give the id of the schema" if is_import else "is not in import mode; leave the id out"
        raise RegistryError(Code.NOT_PERMITTED, f"Subject {subject} {needs}")
    identity = state.identity(schema)
    for version in state.versions(subject):
        if version.identity == identity and wanted.schema_id in (None, version.schema_id):
            return Change(response=_registered(version))
    if state.size_bytes + schema.size_bytes > MAX_SCHEMAS_BYTES:
        raise RegistryError(Code.TOO_MANY_SCHEMAS, f"the registry has {MAX_SCHEMAS_BYTES >> 20} MiB of schemas; delete some first")
    if not is_import:
        level = state.level(subject)
        comparison = comparison_of(state, schema, compared(level, state.versions(subject)), level)
        if checked is None or checked.comparison != comparison:
            raise NotChecked(comparison)
        if found := checked.reasons:
            text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: {found}'
            raise RegistryError(Code.INCOMPATIBLE, text)
    number = max(state.subjects.get(subject, {}), default=0) + 1 if wanted.version is None else wanted.version
    version = Version(subject=subject, version=number, schema_id=_id_of(state, wanted, identity), schema=schema)
    return Change(records=[version_record(version)], response=_registered(version))


def _registered(version: Version) -> dict[str, Any]:
    return {"id": version.schema_id}


def _id_of(state: State, wanted: Registration, identity: bytes) -> int:
    if wanted.schema_id is None:
        known = state.id_of(identity)
        return state.max_id + 1 if known is None else known
    if any(version.identity != identity for version in state.versions_of_id(wanted.schema_id)):
        raise RegistryError(Code.ID_CONFLICT, f"Overwrite new schema with id {wanted.schema_id} is not permitted.")
    return wanted.schema_id


def delete_subject(state: State, subject: str, *, is_permanent: bool) -> Change:
    """Delete all versions of a subject: hide them, or remove hidden versions. Raises `RegistryError`."""
    _check_writable(state, subject)
    everything = found_versions(state, subject, deleted=True)
    if is_permanent:
        if any(not version.is_deleted for version in everything):
            raise RegistryError(
                Code.SUBJECT_NOT_SOFT_DELETED, f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        wanted = everything
    else:
        wanted = [version for version in everything if not version.is_deleted]
        if not wanted:
            raise RegistryError(
                Code.SUBJECT_SOFT_DELETED, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
            )
    for version in wanted:
        _check_unreferenced(state, version)
    numbers = [version.version for version in wanted]
    if is_permanent:
        # The record DELETE_SUBJECT stays, as in Confluent's registry, whose reader fails at a tombstone of this key.
        records = [version_tombstone(subject, number) for number in numbers]
    else:
        records = [subject_record(DELETE_SUBJECT, subject, {"subject": subject, "version": numbers[-1]})]
    records += [
        subject_record(keytype, subject, None)
        for keytype, values in ((CONFIG, state.levels), (MODE, state.modes))
        if subject in values
    ]
    return Change(records=records, response=numbers)


def delete_version(state: State, subject: str, text: str, *, is_permanent: bool) -> Change:
    """Hide a version, or remove a hidden version. Raises `RegistryError`."""
    _check_writable(state, subject)
    version = found_version(state, subject, text, deleted=True)
    if is_permanent and not version.is_deleted:
        raise RegistryError(
            Code.VERSION_NOT_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was not deleted first before being permanently deleted",
        )
    if not is_permanent and version.is_deleted:
        raise RegistryError(
            Code.VERSION_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was soft deleted. Set permanent=true to delete permanently",
        )
    _check_unreferenced(state, version)
    record = version_tombstone(subject, version.version) if is_permanent else version_record(_hidden(version))
    return Change(records=[record], response=version.version)


def _hidden(version: Version) -> Version:
    return msgspec.structs.replace(version, is_deleted=True)


def _check_unreferenced(state: State, version: Version) -> None:
    users = [user for user in state.referring(version.subject, version.version) if not user.is_deleted]
    if users:
        user = f"version {users[0].version} of subject {users[0].subject!r}"
        raise RegistryError(
            Code.REFERENCE_EXISTS,
            f"One or more references exist to the schema {{subject={version.subject},version={version.version}}}: {user}",
        )


# levels and modes

_CONFIG_FIELDS: Final = {"compatibility", "compatibilityLevel", "normalize"}


def set_config(state: State, subject: str | None, given: Any) -> Change:
    """Set the compatibility level, and whether schemas are normalized. Raises `RegistryError`."""
    _check_writable(state, subject)
    if not isinstance(given, dict):
        raise RegistryError(Code.INVALID_LEVEL, 'give {"compatibility": LEVEL}')
    further = sorted(name for name, value in given.items() if name not in _CONFIG_FIELDS and value is not None)
    if further:
        raise RegistryError(Code.INVALID_LEVEL, f"this registry does not have the config {further[0][:40]!r}; leave it out")
    level = given.get("compatibility", given.get("compatibilityLevel"))
    if level is not None:
        level = str(level).upper()
        if level not in LEVELS:
            raise RegistryError(
                Code.INVALID_LEVEL, f"Invalid compatibility level {level[:40]!r}. Valid values are {', '.join(LEVELS).lower()}"
            )
    normalize = given.get("normalize")
    if normalize is not None and not isinstance(normalize, bool):
        raise RegistryError(Code.INVALID_LEVEL, "normalize is true or false")
    changed = {name: value for name, value in (("compatibilityLevel", level), ("normalize", normalize)) if value is not None}
    if not changed:
        raise RegistryError(Code.INVALID_LEVEL, f"give a compatibility level: {', '.join(LEVELS)}")
    stored = {**state.levels.get(subject, {}), **changed}
    response = {name: value for name, value in (("compatibility", level), ("normalize", normalize)) if value is not None}
    return Change(records=[subject_record(CONFIG, subject, stored)], response=response)


def delete_config(state: State, subject: str | None) -> Change:
    """Remove a level, so that the default applies. Responds with the removed config. Raises `RegistryError`."""
    _check_writable(state, subject)
    stored = state.levels.get(subject)
    if stored is None and subject is not None:
        raise RegistryError(
            Code.SUBJECT_LEVEL_NOT_FOUND, f"Subject '{subject}' does not have subject-level compatibility configured"
        )
    response = stored or {"compatibilityLevel": state.level(subject)}
    return Change(records=[] if stored is None else [subject_record(CONFIG, subject, None)], response=response)


def set_mode(state: State, subject: str | None, given: Any, *, is_forced: bool) -> Change:
    """Set a mode. IMPORT needs an empty subject or registry, unless it is forced. Raises `RegistryError`."""
    mode = str(given.get("mode", "")).upper() if isinstance(given, dict) else ""
    if mode not in MODES:
        raise RegistryError(Code.INVALID_MODE, f"Invalid mode {mode[:40]!r}. Valid values are {', '.join(MODES)}")
    if mode == "IMPORT" and not is_forced and state.mode(subject) != "IMPORT":
        subjects = state.subjects if subject is None else [subject]
        used = [name for name in subjects if state.versions(name)]
        if used:
            raise RegistryError(
                Code.NOT_PERMITTED, f"Cannot import since found existing subjects, such as {used[0]!r}; force=true imports anyway"
            )
    return Change(records=[subject_record(MODE, subject, {"mode": mode})], response={"mode": mode})


def delete_mode(state: State, subject: str | None) -> Change:
    stored = state.modes.get(subject)
    if stored is None and subject is not None:
        raise RegistryError(Code.SUBJECT_MODE_NOT_FOUND, f"Subject '{subject}' does not have subject-level mode configured")
    response = {"mode": stored or state.mode(subject)}
    return Change(records=[] if stored is None else [subject_record(MODE, subject, None)], response=response)
