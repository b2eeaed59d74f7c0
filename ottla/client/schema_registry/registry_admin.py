"""Lists the subjects and versions of a registry, and registers and deletes schemas, as an administrator does.

Nothing is cached. Each change is a `ChangeRequest`, so that the console can show the request before it is sent.
"""

from __future__ import annotations

import json
from typing import Final, Literal, TypeVar

import msgspec

from ottla.client.errors import ClientError
from ottla.client.schema_registry.registry_client import (
    AVRO,
    RegisteredSchema,
    RegistryClient,
    SchemaId,
    SchemaReference,
    quoted,
    schema_body,
)
from ottla.client.security.http_client import HttpResponse

Level = Literal["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"]
"""The compatibility levels of registries."""
UNSUPPORTED: Final = (404, 405)
"""Status of a response to a request that the registry does not support."""

T = TypeVar("T")


class RegistryRefused(ClientError):
    """The registry has responded with an error."""

    def __init__(self, url: str, status: int, reason: str) -> None:
        super().__init__(f"the registry at {url} refused the request ({status}): {reason}")
        self.status = status


class SubjectVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject. In responses, registries omit the type of Avro schemas."""

    subject: str
    version: int
    id: int
    text: str = msgspec.field(name="schema")
    kind: str = msgspec.field(default=AVRO, name="schemaType")
    references: tuple[SchemaReference, ...] = ()

    @property
    def schema(self) -> RegisteredSchema:
        return RegisteredSchema(text=self.text, kind=self.kind, references=self.references)


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that changes the registry. ``path`` includes the query."""

    method: str
    path: str
    body: bytes | None = None


def registration(subject: str, schema: RegisteredSchema) -> ChangeRequest:
    return ChangeRequest(method="POST", path=f"/subjects/{quoted(subject)}/versions", body=schema_body(schema))


def version_deletion(subject: str, version: int, *, is_permanent: bool) -> ChangeRequest:
    """Return the request that hides a version, or that deletes a hidden version permanently."""
    return ChangeRequest(method="DELETE", path=f"/subjects/{quoted(subject)}/versions/{version}{_permanent(is_permanent)}")


def subject_deletion(subject: str, *, is_permanent: bool) -> ChangeRequest:
    """Return the request that hides all versions of a subject, or that deletes its hidden versions permanently."""
    return ChangeRequest(method="DELETE", path=f"/subjects/{quoted(subject)}{_permanent(is_permanent)}")


def level_change(subject: str | None, level: Level | None) -> ChangeRequest:
    """Return the request that sets the compatibility level of a subject, or of the registry if ``subject`` is None. The level None
    removes the subject's own level."""
    path = "/config" if subject is None else f"/config/{quoted(subject)}"
    if level is None:
        return ChangeRequest(method="DELETE", path=path)
    return ChangeRequest(method="PUT", path=path, body=json.dumps({"compatibility": level}).encode())


def _permanent(is_permanent: bool) -> str:
    return "?permanent=true" if is_permanent else ""


class _Config(msgspec.Struct):
    """A config of a registry. It has no level if only other settings, such as ``normalize``, are set."""

    level: str | None = msgspec.field(default=None, name="compatibilityLevel")


class _Place(msgspec.Struct):
    subject: str
    version: int


class _Compatibility(msgspec.Struct):
    is_compatible: bool
    messages: list[str] = []


class _ErrorBody(msgspec.Struct):
    message: str


class RegistryAdmin:
    """Sends the requests with a `RegistryClient`. All methods raise `ClientError`: `RegistryRefused` for an error response."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self.url = client.registry.url

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Return the names of all subjects, sorted; with ``deleted`` also of those whose versions are all soft-deleted."""
        return sorted(self._read(f"/subjects{_deleted(deleted)}", list[str]) or [])

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions; none for an unknown subject. ``deleted`` includes soft-deleted versions."""
        return self._read(f"/subjects/{quoted(subject)}/versions{_deleted(deleted)}", list[int]) or []

    def version(self, subject: str, version: int | None = None, *, deleted: bool = False) -> SubjectVersion | None:
        """Return a version, or the latest; None if it does not exist. ``deleted`` includes soft-deleted versions."""
        number = "latest" if version is None else version
        return self._read(f"/subjects/{quoted(subject)}/versions/{number}{_deleted(deleted)}", SubjectVersion)

    def level(self, subject: str | None = None) -> str | None:
        """Return the compatibility level of the registry or of a subject; None if the subject has no level of its own."""
        path = "/config" if subject is None else f"/config/{quoted(subject)}"
        found = self._read(path, _Config)
        return None if found is None else found.level

    def users(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to a version; none if the registry does not support the request."""
        path = f"/subjects/{quoted(subject)}/versions/{version}/referencedby"
        return self._read(path, list[int], missing=UNSUPPORTED) or []

    def places(self, number: int) -> list[tuple[str, int]]:
        """Return subject and version of all versions with a schema id; none if the registry does not support the request."""
        found = self._read(f"/schemas/ids/{number}/versions", list[_Place], missing=UNSUPPORTED)
        return [(one.subject, one.version) for one in found or []]

    def version_with(self, subject: str, schema: RegisteredSchema) -> SubjectVersion | None:
        """Return the version of a subject that has this schema; None if no version has it."""
        return self._read(f"/subjects/{quoted(subject)}", SubjectVersion, schema_body(schema))

    def incompatibilities(self, subject: str, schema: RegisteredSchema) -> list[str]:
        """Return why a subject's compatibility level does not allow a schema as its next version; empty if it is allowed."""
        path, body = f"/compatibility/subjects/{quoted(subject)}/versions", schema_body(schema)
        found = self._read(f"{path}?verbose=true", _Compatibility, body, UNSUPPORTED)
        if found is None:
            # Older registries compare with one version only. A subject without versions has the status 404.
            found = self._read(f"{path}/latest?verbose=true", _Compatibility, body)
        if found is None or found.is_compatible:
            return []
        return found.messages or ["the registry gives no reason"]

    def change(self, change: ChangeRequest) -> bytes:
        """Send a change, and return the body of the response."""
        return self._checked(self._client.send(change.path, change.body, change.method)).body

    def registered_id(self, change: ChangeRequest) -> int:
        """Send a registration, and return the schema's id."""
        return self._client.decoded(self.change(change), SchemaId).id

    def _read(self, path: str, kind: type[T], body: bytes | None = None, missing: tuple[int, ...] = (404,)) -> T | None:
        answer = self._client.send(path, body)
        return None if answer.status in missing else self._client.decoded(self._checked(answer).body, kind)

    def _checked(self, answer: HttpResponse) -> HttpResponse:
        if not 200 <= answer.status < 300:
            try:
                reason = msgspec.json.decode(answer.body, type=_ErrorBody).message
            except (msgspec.MsgspecError, UnicodeDecodeError):
                reason = answer.body.decode(errors="replace") or answer.reason
            raise RegistryRefused(self.url, answer.status, " ".join(reason.split()))
        return answer


def _deleted(is_included: bool) -> str:
    return "?deleted=true" if is_included else ""
