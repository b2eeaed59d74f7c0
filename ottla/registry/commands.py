"""The commands that change the registry. Each command checks a request against the state and returns records, whose replay changes
the state."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ottla.registry.comparison import Comparison, comparison_of
from ottla.registry.compatibility import LEVELS, compared
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.queries import found_version, found_versions
from ottla.registry.records import (
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    RegistryRecord,
    subject_record,
    version_record,
    version_tombstone,
)
from ottla.registry.schema_text import MAX_NUMBER, SchemaText, Version
from ottla.registry.state import CONTEXT_PREFIX, MODES, RegistryState

MAX_SCHEMAS_BYTES: Final = 256 << 20
"""Maximum total size, in bytes, of the registry's schemas, which are all kept in memory."""
MAX_SUBJECT_CHARS: Final = 1_000


class RegistryChange(msgspec.Struct, frozen=True, kw_only=True):
    """The records to append, and the response to send after their replay."""

    records: list[RegistryRecord] = []
    response: Any


def check_subject(subject: str) -> str:
    """Return a subject's name without the prefix ``:.:`` of the default context. Raises `RegistryError`."""
    if subject.startswith(CONTEXT_PREFIX):
        context, _, name = subject[len(CONTEXT_PREFIX) - 1 :].partition(":")
        if context != ".":
            raise RegistryError(
                RegistryCode.INVALID_SUBJECT, f"{subject[:80]!r} names the context {context[:60]!r}; this registry has no contexts"
            )
        subject = name
    if not subject or len(subject) > MAX_SUBJECT_CHARS or not subject.isprintable():
        raise RegistryError(
            RegistryCode.INVALID_SUBJECT, f"{subject[:80]!r} is not a subject: give 1 to {MAX_SUBJECT_CHARS} printable characters"
        )
    return subject


def _check_writable(state: RegistryState, subject: str | None) -> None:
    mode = state.mode(subject)
    if mode.startswith("READONLY"):
        raise RegistryError(RegistryCode.NOT_PERMITTED, f"Subject {subject} is in read-only mode")


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A schema to register. ``schema_id`` is set in mode IMPORT only. ``version`` is None unless the request has a
    version; except in mode IMPORT it must be the next version of the subject."""

    subject: str
    schema: SchemaText
    schema_id: int | None = None
    version: int | None = None


class CheckedSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A finished comparison. ``reasons`` says why the new schema is incompatible; empty if compatible."""

    comparison: Comparison
    reasons: list[str]


class NotChecked(Exception):
    """Raised before a schema is registered, if the caller must first carry out ``comparison``."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self.comparison = comparison


def register(state: RegistryState, wanted: Registration, checked: CheckedSchema | None) -> RegistryChange:
    """Register a schema, and respond with its id. If the subject already has an equal schema, respond with that schema's id.

    Raises `RegistryError`, and `NotChecked` if ``checked`` is not the comparison that the current state requires.
    """
    subject, schema = wanted.subject, wanted.schema
    _check_writable(state, subject)
    is_import = state.mode(subject) == "IMPORT"
    if is_import != (wanted.schema_id is not None):
        raise RegistryError(
            RegistryCode.NOT_PERMITTED,
            f"Subject {subject} is in import mode; give the id of the schema"
            if is_import
            else f"Subject {subject} is not in import mode; leave the id out",
        )
    identity = state.identity(schema)
    for version in state.versions(subject):
        if version.identity == identity and wanted.schema_id in (None, version.schema_id):
            return RegistryChange(response=_registered(version))
    if state.size_bytes + schema.size_bytes > MAX_SCHEMAS_BYTES:
        raise RegistryError(
            RegistryCode.TOO_MANY_SCHEMAS, f"the registry has {MAX_SCHEMAS_BYTES >> 20} MiB of schemas; delete some first"
        )
    if not is_import:
        level = state.level(subject)
        comparison = comparison_of(state, schema, compared(level, state.versions(subject)), level)
        if checked is None or checked.comparison != comparison:
            raise NotChecked(comparison)
        if found := checked.reasons:
            text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: {found}'
            raise RegistryError(RegistryCode.INCOMPATIBLE, text)
    version = Version(
        subject=subject,
        version=_number_of(state, wanted, is_import=is_import),
        schema_id=_id_of(state, wanted, identity),
        schema=schema,
    )
    return RegistryChange(records=[version_record(version)], response=_registered(version))


def _registered(version: Version) -> dict[str, Any]:
    return {"id": version.schema_id}


def _number_of(state: RegistryState, wanted: Registration, *, is_import: bool) -> int:
    if is_import and wanted.version is not None:
        if wanted.version > MAX_NUMBER:
            raise RegistryError(RegistryCode.INVALID_VERSION, f"the version {wanted.version} is not between 1 and {MAX_NUMBER}")
        return wanted.version
    last = max(state.subjects.get(wanted.subject, {}), default=0)
    # A lower number would replace an existing version (KafkaSchemaRegistry.register).
    if wanted.version not in (None, last + 1):
        raise RegistryError(RegistryCode.INVALID_SCHEMA, "Version is not one more than previous version")
    if last >= MAX_NUMBER:
        text = f"subject {wanted.subject!r} has no version left, because {MAX_NUMBER} is used; delete that version permanently"
        raise RegistryError(RegistryCode.TOO_MANY_SCHEMAS, text)
    return last + 1


def _id_of(state: RegistryState, wanted: Registration, identity: bytes) -> int:
    if wanted.schema_id is None:
        if (known := state.id_of(identity)) is not None:
            return known
        if state.max_id >= MAX_NUMBER:
            text = f"no schema id is left, because {MAX_NUMBER} is used; register the schema in mode IMPORT with another id"
            raise RegistryError(RegistryCode.TOO_MANY_SCHEMAS, text)
        return state.max_id + 1
    if wanted.schema_id > MAX_NUMBER:
        raise RegistryError(RegistryCode.UNPROCESSABLE, f"the schema id {wanted.schema_id} is not between 1 and {MAX_NUMBER}")
    if any(version.identity != identity for version in state.versions_of_id(wanted.schema_id)):
        raise RegistryError(RegistryCode.ID_CONFLICT, f"Overwrite new schema with id {wanted.schema_id} is not permitted.")
    return wanted.schema_id


def delete_subject(state: RegistryState, subject: str, *, is_permanent: bool) -> RegistryChange:
    """Soft-delete all versions of a subject, or permanently delete its soft-deleted versions. Raises `RegistryError`."""
    _check_writable(state, subject)
    everything = found_versions(state, subject, deleted=True)
    if is_permanent:
        if any(not version.is_deleted for version in everything):
            raise RegistryError(
                RegistryCode.SUBJECT_NOT_SOFT_DELETED, f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        wanted = everything
    else:
        wanted = [version for version in everything if not version.is_deleted]
        if not wanted:
            raise RegistryError(
                RegistryCode.SUBJECT_SOFT_DELETED, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
            )
    for version in wanted:
        _check_unreferenced(state, version)
    numbers = [version.version for version in wanted]
    if is_permanent:
        # Write no tombstone for the record DELETE_SUBJECT, because Confluent's registry fails at it.
        records = [version_tombstone(subject, number) for number in numbers]
    else:
        records = [subject_record(DELETE_SUBJECT, subject, {"subject": subject, "version": numbers[-1]})]
    records += [
        subject_record(keytype, subject, None)
        for keytype, values in ((CONFIG, state.levels), (MODE, state.modes))
        if subject in values
    ]
    return RegistryChange(records=records, response=numbers)


def delete_version(state: RegistryState, subject: str, text: str, *, is_permanent: bool) -> RegistryChange:
    """Soft-delete a version, or permanently delete a soft-deleted version. Raises `RegistryError`."""
    _check_writable(state, subject)
    version = found_version(state, subject, text, deleted=True)
    if is_permanent and not version.is_deleted:
        raise RegistryError(
            RegistryCode.VERSION_NOT_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was not deleted first before being permanently deleted",
        )
    if not is_permanent and version.is_deleted:
        raise RegistryError(
            RegistryCode.VERSION_SOFT_DELETED,
            f"Subject '{subject}' Version {version.version} was soft deleted. Set permanent=true to delete permanently",
        )
    _check_unreferenced(state, version)
    record = version_tombstone(subject, version.version) if is_permanent else version_record(_hidden(version))
    return RegistryChange(records=[record], response=version.version)


def _hidden(version: Version) -> Version:
    return msgspec.structs.replace(version, is_deleted=True)


def _check_unreferenced(state: RegistryState, version: Version) -> None:
    users = [user for user in state.referring(version.subject, version.version) if not user.is_deleted]
    if users:
        user = f"version {users[0].version} of subject {users[0].subject!r}"
        raise RegistryError(
            RegistryCode.REFERENCE_EXISTS,
            f"One or more references exist to the schema {{subject={version.subject},version={version.version}}}: {user}",
        )


_CONFIG_FIELDS: Final = {"compatibility", "compatibilityLevel", "normalize"}


def set_config(state: RegistryState, subject: str | None, given: Any) -> RegistryChange:
    """Set the compatibility level, and whether schemas are normalized. Raises `RegistryError`."""
    _check_writable(state, subject)
    if not isinstance(given, dict):
        raise RegistryError(RegistryCode.INVALID_LEVEL, 'give {"compatibility": LEVEL}')
    further = sorted(name for name, value in given.items() if name not in _CONFIG_FIELDS and value is not None)
    if further:
        raise RegistryError(RegistryCode.INVALID_LEVEL, f"this registry does not have the config {further[0][:40]!r}; leave it out")
    level = given.get("compatibility", given.get("compatibilityLevel"))
    if level is not None:
        level = str(level).upper()
        if level not in LEVELS:
            raise RegistryError(
                RegistryCode.INVALID_LEVEL,
                f"Invalid compatibility level {level[:40]!r}. Valid values are {', '.join(LEVELS).lower()}",
            )
    normalize = given.get("normalize")
    if normalize is not None and not isinstance(normalize, bool):
        raise RegistryError(RegistryCode.INVALID_LEVEL, "normalize must be true or false")
    changed = {name: value for name, value in (("compatibilityLevel", level), ("normalize", normalize)) if value is not None}
    if not changed:
        raise RegistryError(RegistryCode.INVALID_LEVEL, f"give a compatibility level: {', '.join(LEVELS)}")
    stored = {**state.levels.get(subject, {}), **changed}
    response = {name: value for name, value in (("compatibility", level), ("normalize", normalize)) if value is not None}
    return RegistryChange(records=[subject_record(CONFIG, subject, stored)], response=response)


def delete_config(state: RegistryState, subject: str | None) -> RegistryChange:
    """Remove a subject's config or the global config, and respond with it. Raises `RegistryError`."""
    _check_writable(state, subject)
    stored = state.levels.get(subject)
    if stored is None and subject is not None:
        raise RegistryError(
            RegistryCode.SUBJECT_LEVEL_NOT_FOUND, f"Subject '{subject}' does not have subject-level compatibility configured"
        )
    response = stored or {"compatibilityLevel": state.level(subject)}
    return RegistryChange(records=[] if stored is None else [subject_record(CONFIG, subject, None)], response=response)


def set_mode(state: RegistryState, subject: str | None, given: Any, *, is_forced: bool) -> RegistryChange:
    """Set the mode of a subject or the registry. Unless ``is_forced``, IMPORT is refused if undeleted versions exist. Raises
    `RegistryError`."""
    mode = str(given.get("mode", "")).upper() if isinstance(given, dict) else ""
    if mode not in MODES:
        raise RegistryError(RegistryCode.INVALID_MODE, f"Invalid mode {mode[:40]!r}. Valid values are {', '.join(MODES)}")
    if mode == "IMPORT" and not is_forced and state.mode(subject) != "IMPORT":
        subjects = state.subjects if subject is None else [subject]
        used = [name for name in subjects if state.versions(name)]
        if used:
            raise RegistryError(
                RegistryCode.NOT_PERMITTED,
                f"Cannot import since found existing subjects, such as {used[0]!r}; force=true imports anyway",
            )
    return RegistryChange(records=[subject_record(MODE, subject, {"mode": mode})], response={"mode": mode})


def delete_mode(state: RegistryState, subject: str | None) -> RegistryChange:
    stored = state.modes.get(subject)
    if stored is None and subject is not None:
        raise RegistryError(RegistryCode.SUBJECT_MODE_NOT_FOUND, f"Subject '{subject}' does not have subject-level mode configured")
    response = {"mode": stored or state.mode(subject)}
    return RegistryChange(records=[] if stored is None else [subject_record(MODE, subject, None)], response=response)
