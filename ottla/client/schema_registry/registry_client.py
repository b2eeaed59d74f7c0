"""A client of schema registries with Confluent's REST API."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from ottla.client.errors import ClientError
from ottla.client.schema_registry.references import MAX_REFERENCES, TooManyReferences, resolved
from ottla.client.schema_registry.request_cache import RequestCache
from ottla.client.security.client_config import Secret
from ottla.client.security.http_client import HttpResponse, ask, check_url

T = TypeVar("T")

MAX_SCHEMAS: Final = 1_000
"""Maximum number of cached schemas, ids and lists of subjects, because values may contain any schema id."""
UNKNOWN_S: Final = 60.0
"""Time, in seconds, after which an unknown id is requested again, because the schema may have been registered meanwhile."""
SUBJECTS_S: Final = 60.0
"""Time, in seconds, after which the subjects of a schema are requested again, because a schema may get further subjects."""
MAX_CLIENTS: Final = 32
"""Maximum number of cached clients of a process. Each pair of registry and credentials has its own client."""
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""The schema types of the registry's REST API."""
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


class SchemaId(msgspec.Struct):
    """The response to a registration."""

    id: int


def subject_of(topic: str, record: str = "", *, strategy: str = "topic", is_key: bool = False) -> str:
    """Return the subject by one of Confluent's naming strategies: ``topic``, ``record`` or ``topic-record``. Raises
    `ClientError`."""
    subjects = {"topic": f"{topic}-{'key' if is_key else 'value'}", "record": record, "topic-record": f"{topic}-{record}"}
    if strategy not in subjects:
        raise ClientError(f"the subject name strategy {strategy!r} is not one of {', '.join(subjects)}")
    if strategy != "topic" and not record:
        raise ClientError(f"the name strategy {strategy!r} needs the record's full name")
    return subjects[strategy]


class RegistryClient:
    """Sends requests to a registry, and caches ids and schemas, because the schema of an id never changes. Threads may share a
    client."""

    def __init__(self, registry: Registry, now_s: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._schemas: RequestCache[tuple[int, bool], RegisteredSchema | None] = RequestCache(MAX_SCHEMAS, now_s)
        """Schemas by id and whether the text is serialized; None for ids that the registry does not know."""
        self._subjects: RequestCache[int, list[str]] = RequestCache(MAX_SCHEMAS, now_s)
        self._ids: RequestCache[tuple[str, RegisteredSchema], int] = RequestCache(MAX_SCHEMAS, now_s)

    @property
    def registry(self) -> Registry:
        return self._registry

    def schema(self, number: int, *, serialized: bool = False) -> RegisteredSchema | None:
        """Return the schema with this id; None if the registry does not know the id. With ``serialized`` the text of a Protobuf
        schema is a file descriptor in base64. Raises `ClientError`."""

        def request() -> RegisteredSchema | None:
            body = self._ask(f"/schemas/ids/{number}{_format(is_serialized=serialized)}", None)
            return None if body is None else self.decoded(body, RegisteredSchema)

        return self._schemas.get((number, serialized), request, lambda schema: UNKNOWN_S if schema is None else math.inf)

    def referenced(self, schema: RegisteredSchema, *, serialized: bool = False) -> dict[str, RegisteredSchema]:
        """Return the schemas to which a schema refers, directly or through others, by reference name. Each schema follows those to
        which it refers. Raises `ClientError`."""

        def resolve(reference: SchemaReference) -> tuple[RegisteredSchema, Sequence[SchemaReference]]:
            version = self._version(reference, serialized=serialized)
            return version, version.references

        try:
            return resolved(schema.references, resolve)
        except TooManyReferences:
            raise ClientError(f"a schema of {self._registry.url} has more than {MAX_REFERENCES:,} references") from None

    def _version(self, reference: SchemaReference, *, serialized: bool) -> RegisteredSchema:
        path = f"/subjects/{quoted(reference.subject)}/versions/{reference.version}"
        body = self._ask(path + _format(is_serialized=serialized), None)
        if body is None:
            raise ClientError(
                f"the registry at {self._registry.url} has no version {reference.version} of subject {reference.subject!r}, to"
                " which a schema refers"
            )
        return self.decoded(body, RegisteredSchema)

    def subjects(self, number: int) -> list[str]:
        """Return the subjects with the schema of this id; none if the registry does not support the request. Raises
        `ClientError`."""

        def request() -> list[str]:
            body = self._ask(f"/schemas/ids/{number}/subjects", None)
            return [] if body is None else self.decoded(body, list[str])

        return self._subjects.get(number, request, lambda _: SUBJECTS_S)

    def check(self) -> None:
        """Raise `ClientError` if the registry cannot be reached, or refuses the credentials."""
        if self._ask("/subjects?limit=1", None) is None:
            raise ClientError(f"the server at {self._registry.url} is not a schema registry")

    def register(self, subject: str, schema: str, kind: str = AVRO, references: Sequence[SchemaReference] = ()) -> int:
        """Register a schema under a subject and return its id. Raises `ClientError`, also if the schema is not compatible."""
        key = subject, RegisteredSchema(text=schema, kind=kind, references=tuple(references))

        def request() -> int:
            answer = self._ask(f"/subjects/{quoted(subject)}/versions", schema_body(key[1]))
            if answer is None:
                raise ClientError(f"the registry at {self._registry.url} accepts no schemas for subject {subject!r}")
            return self.decoded(answer, SchemaId).id

        return self._ids.get(key, request, lambda _: math.inf)

    def decoded(self, body: bytes, kind: type[T]) -> T:
        """Decode a response. Raises `ClientError` if another program has sent it."""
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ClientError(f"the server at {self._registry.url} is not a schema registry") from None

    def _ask(self, path: str, body: bytes | None) -> bytes | None:
        answer = self.send(path, body)
        if answer.status == 404 and body is None:
            return None
        if not 200 <= answer.status < 300:
            said = " ".join(answer.body.decode(errors="replace").split())
            raise ClientError(f"the registry at {self._registry.url} returned {answer.status} for {path}: {said}")
        return answer.body

    def send(self, path: str, body: bytes | None = None, method: str | None = None) -> HttpResponse:
        """Send a request with the credentials and return the response, which may be an error. Raises `ClientError` if the registry
        does not answer."""
        registry = self._registry
        headers = {"Accept": _KIND, "Content-Type": _KIND}
        if registry.token.text:
            headers["Authorization"] = f"Bearer {registry.token.text}"
        elif registry.user:
            pair = f"{registry.user}:{registry.password.text}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return ask(f"the registry at {registry.url}", registry.url.rstrip("/") + path, body, headers, method=method)


_clients: dict[Registry, RegistryClient] = {}
"""The cached clients of this process, the most recently used client last."""
_clients_lock = threading.Lock()


def client_of(registry: Registry) -> RegistryClient:
    """Return the client of a registry, which all tasks of this process share."""
    with _clients_lock:
        client = _clients.pop(registry, None) or RegistryClient(registry)
        while len(_clients) >= MAX_CLIENTS:
            del _clients[next(iter(_clients))]
        _clients[registry] = client
        return client


def quoted(subject: str) -> str:
    """Return a subject as a segment of a path."""
    return urllib.parse.quote(subject, safe="")


def schema_body(schema: RegisteredSchema) -> bytes:
    """Return the body of a request with a schema."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [msgspec.to_builtins(reference) for reference in schema.references]
    return json.dumps(body).encode()


def _format(*, is_serialized: bool) -> str:
    return "?format=serialized" if is_serialized else ""
