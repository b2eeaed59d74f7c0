"""The state of the schema registry: subjects with their versions, compatibility levels and modes.

Only replayed records of ``_schemas`` change the state, so that a restart restores the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ottla.registry.compatibility import LEVELS
from ottla.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    decoded_fields,
    decoded_key,
    decoded_version,
)
from ottla.registry.schema_text import MAX_NUMBER, SchemaText, Version

DEFAULT_LEVEL: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"
MODES: Final = (DEFAULT_MODE, "READONLY", "READONLY_OVERRIDE", "IMPORT")
MAX_QUOTED_CHARS: Final = 40
"""Maximum length of a record's text that is quoted in a log line."""
CONTEXT_PREFIX: Final = ":."
"""Prefix of subjects with a context, such as ``:.dev:orders``. The registry has no contexts and ignores their records."""

Identity = Callable[[SchemaText], bytes]
"""Returns a digest that is the same for equal schemas; see `formats.types.identity`."""


class RegistryState:
    """The state of the registry. A `SchemaLog` owns the state and protects it by a lock. Schemas with the same ``identity`` are
    equal."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.subjects: dict[str, dict[int, Version]] = {}
        """The versions of each subject, including soft-deleted versions, ordered by number."""
        self.levels: dict[str | None, dict[str, Any]] = {}
        """The configs by subject; None is the global config."""
        self.modes: dict[str | None, str] = {}
        self.max_id = 0
        self.size_bytes = 0
        """Approximate size of all versions in memory, in bytes."""
        self._ids: dict[bytes, int] = {}
        self._users: dict[int, dict[tuple[str, int], Version]] = {}
        """For each schema id, the versions with this schema, by subject and version number."""

    def schema(self, schema_id: int) -> SchemaText | None:
        return next((version.schema for version in self._users.get(schema_id, {}).values()), None)

    def versions_of_id(self, schema_id: int) -> list[Version]:
        return sorted(self._users.get(schema_id, {}).values(), key=lambda version: (version.subject, version.version))

    def id_of(self, identity: bytes) -> int | None:
        """Return the id of the schema with this digest; None if no subject has such a schema."""
        return self._ids.get(identity)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject, by default without soft-deleted versions."""
        return [version for version in self.subjects.get(subject, {}).values() if deleted or not version.is_deleted]

    def level(self, subject: str | None) -> str:
        """Return the compatibility level that applies to a subject."""
        return str(self._config(subject, "compatibilityLevel", DEFAULT_LEVEL))

    def normalizes(self, subject: str) -> bool:
        return bool(self._config(subject, "normalize", False))

    def _config(self, subject: str | None, name: str, default: object) -> object:
        own = self.levels.get(subject, {}).get(name)
        return own if own is not None else self.levels.get(None, {}).get(name, default)

    def mode(self, subject: str | None) -> str:
        """Return the mode that applies to a subject."""
        common = self.modes.get(None, DEFAULT_MODE)
        return common if common == "READONLY_OVERRIDE" else self.modes.get(subject, common)

    def referring(self, subject: str, number: int) -> Iterator[Version]:
        """Yield the versions whose schemas refer to version ``number`` of ``subject``."""
        for versions in self.subjects.values():
            for version in versions.values():
                if any((one.subject, one.version) == (subject, number) for one in version.schema.references):
                    yield version

    def replay(self, key_bytes: bytes | None, value: bytes | None) -> str | None:
        """Apply a record. Ignores records of other formats and contexts. Returns text for the log if a record is malformed and
        therefore ignored; else None."""
        key = decoded_key(key_bytes)
        if key is None or (key.subject or "").startswith(CONTEXT_PREFIX):
            return None
        if key.keytype == SCHEMA and key.subject is not None and key.version is not None:
            return self._replay_version(key.subject, key.version, value)
        if key.keytype == CONFIG:
            return self._replay_config(key.subject, value)
        if key.keytype == MODE:
            return self._replay_mode(key.subject, value)
        if key.keytype == DELETE_SUBJECT and key.subject is not None and value is not None:
            last = (decoded_fields(value) or {}).get("version")
            for version in self.versions(key.subject):
                if isinstance(last, int) and version.version <= last:
                    self._put(msgspec.structs.replace(version, is_deleted=True))
        elif key.keytype == CLEAR_SUBJECT and key.subject is not None:
            for version in [one for one in self.versions(key.subject, deleted=True) if one.is_deleted]:
                self._remove(version.subject, version.version)
        return None

    def _replay_version(self, subject: str, number: int, value: bytes | None) -> str | None:
        if value is None:
            self._remove(subject, number)
            return None
        version = decoded_version(value)
        if version is None or (version.subject, version.version) != (subject, number):
            return f"the schema of version {number} of subject {_quoted(subject)} is malformed"
        for name, found in (("version", version.version), ("schema id", version.schema_id)):
            if not 0 < found <= MAX_NUMBER:
                return f"the {name} {found} of subject {_quoted(subject)} is not between 1 and {MAX_NUMBER}"
        self._put(version)
        return None

    def _replay_config(self, subject: str | None, value: bytes | None) -> str | None:
        if value is None:
            self.levels.pop(subject, None)
            return None
        fields = decoded_fields(value)
        level = None if fields is None else fields.get("compatibilityLevel")
        if fields is None or level not in (None, *LEVELS):
            return f"{_quoted(level)} of {_owner(subject)} is not a compatibility level"
        self.levels[subject] = fields
        return None

    def _replay_mode(self, subject: str | None, value: bytes | None) -> str | None:
        if value is None:
            self.modes.pop(subject, None)
            return None
        mode = (decoded_fields(value) or {}).get("mode")
        if mode not in MODES:
            return f"{_quoted(mode)} of {_owner(subject)} is not a mode"
        self.modes[subject] = mode
        return None

    def _put(self, version: Version) -> None:
        if not version.identity:
            version = msgspec.structs.replace(version, identity=self.identity(version.schema))
        self._remove(version.subject, version.version)
        versions = self.subjects.setdefault(version.subject, {})
        is_last = version.version > max(versions, default=0)
        versions[version.version] = version
        if not is_last:
            self.subjects[version.subject] = dict(sorted(versions.items()))
        self._users.setdefault(version.schema_id, {})[version.subject, version.version] = version
        self._ids.setdefault(version.identity, version.schema_id)
        self.max_id = max(self.max_id, version.schema_id)
        self.size_bytes += version.schema.size_bytes

    def _remove(self, subject: str, number: int) -> None:
        version = self.subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        users = self._users[version.schema_id]
        del users[subject, number]
        if not users:
            del self._users[version.schema_id]
            if self._ids.get(version.identity) == version.schema_id:
                del self._ids[version.identity]
        self.size_bytes -= version.schema.size_bytes


def _owner(subject: str | None) -> str:
    return "all subjects" if subject is None else f"subject {_quoted(subject)}"


def _quoted(value: object) -> str:
    return repr(value)[:MAX_QUOTED_CHARS]
