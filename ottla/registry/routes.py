"""The paths of the API, which are those of Confluent's registry, and their handlers.

A request that changes something holds the `SchemaLog`'s lock from the check to the append, so that no other request runs between
them. Schemas are parsed and compared without the lock, because a compiler may need a second (`compilations`). A registration
compares again if the subject changed before it took the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from ottla.registry.commands import (
    CheckedSchema,
    NotChecked,
    Registration,
    RegistryChange,
    check_subject,
    delete_config,
    delete_mode,
    delete_subject,
    delete_version,
    register,
    set_config,
    set_mode,
)
from ottla.registry.comparison import Comparison, comparison_of
from ottla.registry.compatibility import compared
from ottla.registry.compilations import Compilations
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.formats.parsed import Parsed
from ottla.registry.queries import (
    found_by_schema,
    found_version,
    found_versions,
    references_of,
    schema_fields,
    version_fields,
)
from ottla.registry.request import RegistryRequest, SubmittedSchema, submitted_schema
from ottla.registry.schema_log import SchemaLog
from ottla.registry.schema_text import KINDS, SchemaText, Version
from ottla.registry.state import RegistryState

API_VERSION: Final = "7.9.0"
"""The version that the registry reports: the release of Confluent Platform whose API it implements."""
SERIALIZED: Final = "serialized"
MAX_COMPARISONS: Final = 100
"""Maximum number of comparisons for one registration. A comparison is repeated if another request has changed the subject
meanwhile."""


class Text(msgspec.Struct, frozen=True):
    """A response that is not JSON: the text of a schema."""

    text: str


class Routes:
    """Handles requests with the state of a `SchemaLog`. Threads may share an instance."""

    def __init__(self, log: SchemaLog, compilations: Compilations) -> None:
        self._log = log
        self._compilations = compilations

    def answer(self, request: RegistryRequest) -> Any:
        """Return the response to a request. Raises `RegistryError`."""
        path = request.path
        if path[:1] == ("contexts",) and len(path) > 1:
            raise RegistryError(RegistryCode.NOT_FOUND, f"this registry has no contexts, so {path[1][:60]!r} is unknown")
        methods = [(method, handler) for method, pattern, handler in _ROUTES if _matches(pattern, path)]
        for method, handler in methods:
            if method == request.method:
                return handler(self, request)
        if methods:
            allowed = " or ".join(method for method, _ in methods)
            raise RegistryError(RegistryCode.METHOD_NOT_ALLOWED, f"HTTP 405 Method Not Allowed: use {allowed}")
        raise RegistryError(RegistryCode.NOT_FOUND, "HTTP 404 Not Found")

    def _change(self, decide: Callable[[RegistryState], RegistryChange]) -> Any:
        with self._log.current() as state:
            change = decide(state)
            if change.records:
                self._log.append(change.records)
            return change.response

    def _read(self, read: Callable[[RegistryState], Any]) -> Any:
        with self._log.current() as state:
            return read(state)

    def types(self, request: RegistryRequest) -> Any:
        return KINDS

    def schemas(self, request: RegistryRequest) -> Any:
        """Return the versions of all subjects that match the query parameters."""
        prefix, deleted = request.query.get("subjectPrefix", ""), request.flag("deleted")
        offset, limit = max(request.number("offset", 0), 0), request.number("limit", -1)

        def read(state: RegistryState) -> Any:
            found = []
            for subject in sorted(state.subjects):
                if subject.startswith(prefix):
                    versions = state.versions(subject, deleted=deleted)
                    found += versions[-1:] if request.flag("latestOnly") else versions
            return [version_fields(one) for one in (found[offset:] if limit < 0 else found[offset : offset + limit])]

        return self._read(read)

    def schema_by_id(self, request: RegistryRequest) -> Any:
        schema_id = _schema_id(request.path[2])

        def read(state: RegistryState) -> tuple[SchemaText, int]:
            return _schema_of(state, schema_id), state.max_id

        schema, max_id = self._read(read)
        fields = schema_fields(self._formatted(request, schema))
        return {**fields, "maxId": max_id} if request.flag("fetchMaxId") else fields

    def text_by_id(self, request: RegistryRequest) -> Any:
        schema_id = _schema_id(request.path[2])
        return Text(self._formatted(request, self._read(lambda state: _schema_of(state, schema_id))).text)

    def subjects_of_id(self, request: RegistryRequest) -> Any:
        return sorted({version.subject for version in self._versions_of_id(request)})

    def versions_of_id(self, request: RegistryRequest) -> Any:
        return [{"subject": version.subject, "version": version.version} for version in self._versions_of_id(request)]

    def _versions_of_id(self, request: RegistryRequest) -> list[Version]:
        schema_id, deleted = _schema_id(request.path[2]), request.flag("deleted")
        subject = request.query.get("subject")

        def read(state: RegistryState) -> list[Version]:
            _schema_of(state, schema_id)
            versions = state.versions_of_id(schema_id)
            return [one for one in versions if (deleted or not one.is_deleted) and subject in (None, one.subject)]

        found: list[Version] = self._read(read)
        return found

    def _formatted(self, request: RegistryRequest, schema: SchemaText) -> SchemaText:
        """Return a schema with its text in the requested ``format``: for Protobuf, ``serialized`` is a file descriptor in
        base64."""
        if request.query.get("format") != SERIALIZED:
            return schema
        text = self._parse(schema).serialized()
        return schema if text is None else msgspec.structs.replace(schema, text=text)

    def subjects(self, request: RegistryRequest) -> Any:
        prefix, deleted, deleted_only = request.query.get("subjectPrefix", ""), request.flag("deleted"), request.flag("deletedOnly")
        prefix = prefix.removeprefix(":.:").replace(":*:", "")

        def read(state: RegistryState) -> Any:
            found = []
            for subject in sorted(state.subjects):
                has_versions = bool(state.versions(subject))
                wanted = not has_versions if deleted_only else deleted or has_versions
                if wanted and subject.startswith(prefix):
                    found.append(subject)
            return found

        return self._read(read)

    def versions(self, request: RegistryRequest) -> Any:
        subject, deleted = _subject(request), request.flag("deleted")
        deleted_only = request.flag("deletedOnly")

        def read(state: RegistryState) -> Any:
            versions = found_versions(state, subject, deleted=deleted or deleted_only)
            return [version.version for version in versions if version.is_deleted or not deleted_only]

        return self._read(read)

    def version(self, request: RegistryRequest) -> Any:
        version = self._version(request)
        return version_fields(msgspec.structs.replace(version, schema=self._formatted(request, version.schema)))

    def text(self, request: RegistryRequest) -> Any:
        return Text(self._formatted(request, self._version(request).schema).text)

    def _version(self, request: RegistryRequest) -> Version:
        subject, deleted = _subject(request), request.flag("deleted")
        found: Version = self._read(lambda state: found_version(state, subject, request.path[3], deleted=deleted))
        return found

    def referring(self, request: RegistryRequest) -> Any:
        subject = _subject(request)

        def read(state: RegistryState) -> Any:
            version = found_version(state, subject, request.path[3], deleted=True)
            users = state.referring(subject, version.version)
            return sorted({user.schema_id for user in users if not user.is_deleted or request.flag("deleted")})

        return self._read(read)

    def register(self, request: RegistryRequest) -> Any:
        submitted, subject = self._submitted(request), _subject(request)
        wanted = Registration(subject=subject, schema=submitted.schema, schema_id=submitted.schema_id, version=submitted.version)
        checked: CheckedSchema | None = None
        for _ in range(MAX_COMPARISONS):
            try:
                return self._change(partial(register, wanted=wanted, checked=checked))
            except NotChecked as needed:
                checked = CheckedSchema(comparison=needed.comparison, reasons=self._compilations.incompatible(needed.comparison))
        raise RegistryError(
            RegistryCode.STORE_FAILED, f"subject {subject!r} changed {MAX_COMPARISONS} times during the registration; try again"
        )

    def lookup(self, request: RegistryRequest) -> Any:
        subject, deleted = _subject(request), request.flag("deleted")
        self._read(lambda state: found_versions(state, subject, deleted=deleted))
        submitted = self._submitted(request)
        return version_fields(self._read(lambda state: found_by_schema(state, subject, submitted.schema, deleted=deleted)))

    def delete_subject(self, request: RegistryRequest) -> Any:
        subject, is_permanent = _subject(request), request.flag("permanent")
        return self._change(lambda state: delete_subject(state, subject, is_permanent=is_permanent))

    def delete_version(self, request: RegistryRequest) -> Any:
        subject, text = _subject(request), request.path[3]
        return self._change(lambda state: delete_version(state, subject, text, is_permanent=request.flag("permanent")))

    def _submitted(self, request: RegistryRequest) -> SubmittedSchema:
        """Parse the schema in the request's body, and return the schema as it will be stored. Raises `RegistryError`."""
        submitted = submitted_schema(request)
        parsed = self._parse(submitted.schema)
        subject = _subject(request) if request.path[0] == "subjects" else None
        is_normalized = request.flag("normalize") or (
            subject is not None and "normalize" not in request.query and self._read(lambda state: state.normalizes(subject))
        )
        text = parsed.normalized if is_normalized else parsed.text
        schema = msgspec.structs.replace(submitted.schema, text=text)
        self._compilations.prepare(schema)
        return msgspec.structs.replace(submitted, schema=schema)

    def _parse(self, schema: SchemaText) -> Parsed:
        references = self._read(lambda state: references_of(state, schema.references)) if schema.references else []
        return self._compilations.parse(schema.kind, schema.text, references)

    def is_compatible_with_version(self, request: RegistryRequest) -> Any:
        subject = check_subject(request.path[2])
        self._read(lambda state: found_version(state, subject, request.path[4], deleted=False))
        schema = self._submitted(request).schema

        def read(state: RegistryState) -> Comparison:
            version = found_version(state, subject, request.path[4], deleted=False)
            level = state.level(subject)
            return comparison_of(state, schema, [version] if level != "NONE" else [], level)

        return _compatibility(request, self._compilations.incompatible(self._read(read)))

    def is_compatible(self, request: RegistryRequest) -> Any:
        subject = check_subject(request.path[2])
        schema = self._submitted(request).schema

        def read(state: RegistryState) -> Comparison:
            level = state.level(subject)
            return comparison_of(state, schema, compared(level, state.versions(subject)), level)

        return _compatibility(request, self._compilations.incompatible(self._read(read)))

    def config(self, request: RegistryRequest) -> Any:
        subject = _optional_subject(request)

        def read(state: RegistryState) -> Any:
            own = state.levels.get(subject)
            if own is None and subject is not None and not request.flag("defaultToGlobal"):
                raise RegistryError(
                    RegistryCode.SUBJECT_LEVEL_NOT_FOUND,
                    f"Subject '{subject}' does not have subject-level compatibility configured",
                )
            return own or state.levels.get(None) or {"compatibilityLevel": state.level(subject)}

        return self._read(read)

    def set_config(self, request: RegistryRequest) -> Any:
        subject, given = _optional_subject(request), request.json()
        return self._change(lambda state: set_config(state, subject, given))

    def delete_config(self, request: RegistryRequest) -> Any:
        subject = _optional_subject(request)
        return self._change(lambda state: delete_config(state, subject))

    def mode(self, request: RegistryRequest) -> Any:
        subject = _optional_subject(request)

        def read(state: RegistryState) -> Any:
            if subject is not None and subject not in state.modes and not request.flag("defaultToGlobal"):
                raise RegistryError(
                    RegistryCode.SUBJECT_MODE_NOT_FOUND, f"Subject '{subject}' does not have subject-level mode configured"
                )
            return {"mode": state.mode(subject)}

        return self._read(read)

    def set_mode(self, request: RegistryRequest) -> Any:
        subject, given = _optional_subject(request), request.json()
        return self._change(lambda state: set_mode(state, subject, given, is_forced=request.flag("force")))

    def delete_mode(self, request: RegistryRequest) -> Any:
        subject = _optional_subject(request)
        return self._change(lambda state: delete_mode(state, subject))

    def root(self, request: RegistryRequest) -> Any:
        return {}

    def contexts(self, request: RegistryRequest) -> Any:
        return ["."]

    def cluster(self, request: RegistryRequest) -> Any:
        clusters = {"kafka-cluster": self._log.cluster_id(), "schema-registry-cluster": "schema-registry"}
        return {"scope": {"path": [], "clusters": clusters}, "id": ""}

    def api_version(self, request: RegistryRequest) -> Any:
        return {"version": API_VERSION, "commitId": ""}


def _subject(request: RegistryRequest) -> str:
    return check_subject(request.path[1])


def _optional_subject(request: RegistryRequest) -> str | None:
    if len(request.path) == 1 or request.path[1] in (":.:", ":*:"):
        return None
    return check_subject(request.path[1])


def _schema_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise RegistryError(RegistryCode.NOT_FOUND, f"HTTP 404 Not Found: {text[:40]!r} is not a schema id")
    return int(text)


def _schema_of(state: RegistryState, schema_id: int) -> SchemaText:
    schema = state.schema(schema_id)
    if schema is None:
        raise RegistryError(RegistryCode.SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
    return schema


def _compatibility(request: RegistryRequest, found: list[str]) -> dict[str, Any]:
    return {"is_compatible": not found, **({"messages": found} if request.flag("verbose") else {})}


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(part in ("*", given) for part, given in zip(pattern, path, strict=True))


def _route(method: str, path: str, handler: Callable[[Routes, RegistryRequest], Any]) -> tuple[str, tuple[str, ...], Any]:
    return method, tuple(path.strip("/").split("/")) if path != "/" else (), handler


_ROUTES: Final = (
    _route("GET", "/", Routes.root),
    _route("GET", "/schemas", Routes.schemas),
    _route("GET", "/schemas/types", Routes.types),
    _route("GET", "/schemas/ids/*", Routes.schema_by_id),
    _route("GET", "/schemas/ids/*/schema", Routes.text_by_id),
    _route("GET", "/schemas/ids/*/subjects", Routes.subjects_of_id),
    _route("GET", "/schemas/ids/*/versions", Routes.versions_of_id),
    _route("GET", "/subjects", Routes.subjects),
    _route("POST", "/subjects/*", Routes.lookup),
    _route("DELETE", "/subjects/*", Routes.delete_subject),
    _route("GET", "/subjects/*/versions", Routes.versions),
    _route("POST", "/subjects/*/versions", Routes.register),
    _route("GET", "/subjects/*/versions/*", Routes.version),
    _route("DELETE", "/subjects/*/versions/*", Routes.delete_version),
    _route("GET", "/subjects/*/versions/*/schema", Routes.text),
    _route("GET", "/subjects/*/versions/*/referencedby", Routes.referring),
    _route("POST", "/compatibility/subjects/*/versions", Routes.is_compatible),
    _route("POST", "/compatibility/subjects/*/versions/*", Routes.is_compatible_with_version),
    _route("GET", "/config", Routes.config),
    _route("PUT", "/config", Routes.set_config),
    _route("DELETE", "/config", Routes.delete_config),
    _route("GET", "/config/*", Routes.config),
    _route("PUT", "/config/*", Routes.set_config),
    _route("DELETE", "/config/*", Routes.delete_config),
    _route("GET", "/mode", Routes.mode),
    _route("PUT", "/mode", Routes.set_mode),
    _route("DELETE", "/mode", Routes.delete_mode),
    _route("GET", "/mode/*", Routes.mode),
    _route("PUT", "/mode/*", Routes.set_mode),
    _route("DELETE", "/mode/*", Routes.delete_mode),
    _route("GET", "/contexts", Routes.contexts),
    _route("GET", "/v1/metadata/id", Routes.cluster),
    _route("GET", "/v1/metadata/version", Routes.api_version),
)
