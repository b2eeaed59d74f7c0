"""A client of schema registries with Confluent's interface. It caches schemas by their ids, which never change."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.client.schema_registry.references import MAX_REFERENCES, TooManyReferences, resolved
from ottla.client.security.client_config import Secret
from ottla.client.security.http_client import ask, check_url

MAX_SCHEMAS: Final = 1_000
"""Maximum number of cached schemas, because values may contain any schema id."""
UNKNOWN_S: Final = 60.0
"""Time, in seconds, after which an unknown id is requested again, because the schema may have been registered meanwhile."""
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""The types of schemas in the registry's interface."""
_KIND: Final = "application/vnd.schemaregistry.v1+json"


class Registry(msgspec.Struct, frozen=True):
    """The registry's address, and ``user`` and ``password`` or a bearer ``token``. Spark sends this object pickled to executors."""

    url: str
    user: str = ""
    password: Secret = Secret("")
    token: Secret = Secret("")

    def __post_init__(self) -> None:
        """Raise `ClientError` for an invalid URL."""
        check_url("a registry's URL", self.url, "Registry's user and password beside it")


class SchemaReference(msgspec.Struct, frozen=True):
    """A schema of another subject that a schema uses under ``name``."""

    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema. In responses, registries omit the type of Avro schemas."""

    text: str = msgspec.field(name="schema")
    kind: str = msgspec.field(default=AVRO, name="schemaType")
    references: tuple[SchemaReference, ...] = ()


class _Id(msgspec.Struct):
    id: int


def subject_of(topic: str, record: str = "", *, strategy: str = "topic", is_key: bool = False) -> str:
    """Return a subject by one of Confluent's naming strategies: ``topic``, ``record`` or ``topic-record``. Raises
    `ClientError`."""
    subjects = {"topic": f"{topic}-{'key' if is_key else 'value'}", "record": record, "topic-record": f"{topic}-{record}"}
    if strategy not in subjects:
        raise ClientError(f"the subject name strategy {strategy!r} is not one of {', '.join(subjects)}")
    if strategy != "topic" and not record:
        raise ClientError(f"the name strategy {strategy!r} needs the record's full name")
    return subjects[strategy]


class RegistryClient:
    """Sends requests to a registry, and caches ids and schemas, which never change. Threads may share a client."""

    def __init__(self, registry: Registry, now_s: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._now_s = now_s
        self._lock = threading.Lock()
        self._schemas: dict[tuple[int, bool], RegisteredSchema] = {}
        self._subjects: dict[int, list[str]] = {}
        self._unknown: dict[int, float] = {}
        """Ids that the registry does not know, with the time from which each may be requested again."""
        self._ids: dict[tuple[str, str], int] = {}

    def schema(self, number: int, *, serialized: bool = False) -> RegisteredSchema | None:
        """Return the schema with this id; None if the registry does not know the id. With ``serialized`` the text of a Protobuf
        schema is a file descriptor in base64. Raises `ClientError`."""
        key = number, serialized
        with self._lock:
            if key in self._schemas:
                return self._schemas[key]
            now_s = self._now_s()
            if now_s < self._unknown.get(number, now_s):
                return None
            body = self._ask(f"/schemas/ids/{number}{_format(is_serialized=serialized)}", None)
            for kept in (self._schemas, self._unknown):
                if len(kept) >= MAX_SCHEMAS:
                    kept.clear()
            if body is None:
                self._unknown[number] = now_s + UNKNOWN_S
                return None
            schema: RegisteredSchema = self._decoded(body, RegisteredSchema)
            self._schemas[key] = schema
            return schema

    def referenced(self, schema: RegisteredSchema, *, serialized: bool = False) -> dict[str, RegisteredSchema]:
        """Return the schemas to which a schema refers, also through others, by the names of the references; schemas without
        references come first. Raises `ClientError`."""

        def resolve(reference: SchemaReference) -> tuple[RegisteredSchema, Sequence[SchemaReference]]:
            version = self._version(reference, serialized=serialized)
            return version, version.references

        try:
            return resolved(schema.references, resolve)
        except TooManyReferences:
            raise ClientError(f"a schema of {self._registry.url} has more than {MAX_REFERENCES:,} references") from None

    def _version(self, reference: SchemaReference, *, serialized: bool) -> RegisteredSchema:
        path = f"/subjects/{_quoted(reference.subject)}/versions/{reference.version}"
        with self._lock:
            body = self._ask(path + _format(is_serialized=serialized), None)
        if body is None:
            raise ClientError(
                f"the registry at {self._registry.url} has no version {reference.version} of subject {reference.subject!r}, to"
                " which a schema refers"
            )
        schema: RegisteredSchema = self._decoded(body, RegisteredSchema)
        return schema

    def subjects(self, number: int) -> list[str]:
        """Return the subjects with the schema of this id. Registries without this request have none. Raises `ClientError`."""
        with self._lock:
            if number not in self._subjects:
                body = self._ask(f"/schemas/ids/{number}/subjects", None)
                if len(self._subjects) >= MAX_SCHEMAS:
                    self._subjects.clear()
                self._subjects[number] = [] if body is None else self._decoded(body, list[str])
            return self._subjects[number]

    def register(self, subject: str, schema: str, kind: str = AVRO, references: Sequence[SchemaReference] = ()) -> int:
        """Register a schema under a subject and return its id. Raises `ClientError`, also if the schema is not compatible."""
        key = (subject, schema)
        with self._lock:
            if key not in self._ids:
                body: dict[str, Any] = {"schema": schema}
                if kind != AVRO:
                    body["schemaType"] = kind
                if references:
                    body["references"] = [msgspec.to_builtins(reference) for reference in references]
                answer = self._ask(f"/subjects/{_quoted(subject)}/versions", json.dumps(body).encode())
                if answer is None:
                    raise ClientError(f"the registry at {self._registry.url} accepts no schemas for subject {subject!r}")
                self._ids[key] = self._decoded(answer, _Id).id
            return self._ids[key]

    def _decoded(self, body: bytes, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ClientError(f"the server at {self._registry.url} is not a schema registry") from None

    def _ask(self, path: str, body: bytes | None) -> bytes | None:
        registry = self._registry
        headers = {"Accept": _KIND, "Content-Type": _KIND}
        if registry.token.text:
            headers["Authorization"] = f"Bearer {registry.token.text}"
        elif registry.user:
            pair = f"{registry.user}:{registry.password.text}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        who = f"the registry at {registry.url}"
        answer = ask(who, registry.url.rstrip("/") + path, body, headers)
        if answer.status == 404 and body is None:
            return None
        if not 200 <= answer.status < 300:
            said = " ".join(answer.body.decode(errors="replace").split())
            raise ClientError(f"{who} returned {answer.status} for {path}: {said}")
        return answer.body


_clients: dict[Registry, RegistryClient] = {}
_clients_lock = threading.Lock()


def client_of(registry: Registry) -> RegistryClient:
    """Return the client that the tasks of this process share."""
    with _clients_lock:
        return _clients.setdefault(registry, RegistryClient(registry))


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _format(*, is_serialized: bool) -> str:
    return "?format=serialized" if is_serialized else ""
