"""A client of schema registries (Confluent's interface), and a decoder for their wire format: a zero byte, the schema's id in four
bytes, Avro.

The client sends only two kinds of requests and caches the responses, so executors need no HTTP library.
"""

from __future__ import annotations

import base64
import io
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ottla.client.security.client_config import Secret
from ottla.client.security.http_client import ask, check_url
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.avro import avro_schema

MAX_SCHEMAS: Final = 1_000
"""Maximum number of cached schemas, because values may contain any schema id."""
UNKNOWN_S: Final = 60.0
"""Time, in seconds, after which an unknown id is requested again, because the schema may have been registered meanwhile."""
MAGIC: Final = b"\0"
HEAD_BYTES: Final = 5
_KIND: Final = "application/vnd.schemaregistry.v1+json"


class Registry(msgspec.Struct, frozen=True):
    """The registry's address, and ``user`` and ``password`` or a bearer ``token``. Spark sends this object pickled to executors."""

    url: str
    user: str = ""
    password: Secret = Secret("")
    token: Secret = Secret("")

    def __post_init__(self) -> None:
        """Raise `PipelineError` for an invalid URL."""
        check_url("a registry's URL", self.url, "Registry's user and password beside it")


class _Schema(msgspec.Struct):
    """A registry's response. For Avro, registries omit the type."""

    schema: str
    kind: str = msgspec.field(default="AVRO", name="schemaType")


class _Id(msgspec.Struct):
    id: int


def subject_of(topic: str, record: str = "", *, strategy: str = "topic", is_key: bool = False) -> str:
    """Return a subject by one of Confluent's naming strategies: ``topic``, ``record`` or ``topic-record``. Raises
    `PipelineError`."""
    subjects = {"topic": f"{topic}-{'key' if is_key else 'value'}", "record": record, "topic-record": f"{topic}-{record}"}
    if strategy not in subjects:
        raise PipelineError(f"the subject name strategy {strategy!r} is not one of {', '.join(subjects)}")
    if strategy != "topic" and not record:
        raise PipelineError(f"the name strategy {strategy!r} needs the record's full name")
    return subjects[strategy]


class RegistryClient:
    """Sends requests to a registry, and caches ids and schemas, which never change. Threads may share a client."""

    def __init__(self, registry: Registry, now_s: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._now_s = now_s
        self._lock = threading.Lock()
        self._schemas: dict[int, str | None] = {}
        self._unknown: dict[int, float] = {}
        """Ids that the registry does not know, with the time from which each may be requested again."""
        self._ids: dict[tuple[str, str], int] = {}

    def schema(self, number: int) -> str | None:
        """Return the text of the Avro schema with this id; None if the registry does not know the id or the schema is not Avro.
        Raises `PipelineError`."""
        with self._lock:
            if number in self._schemas:
                return self._schemas[number]
            now_s = self._now_s()
            if now_s < self._unknown.get(number, now_s):
                return None
            body = self._ask(f"/schemas/ids/{number}", None)
            for kept in (self._schemas, self._unknown):
                if len(kept) >= MAX_SCHEMAS:
                    kept.clear()
            if body is None:
                self._unknown[number] = now_s + UNKNOWN_S
                return None
            said = self._decoded(body, _Schema)
            self._schemas[number] = said.schema if said.kind == "AVRO" else None
            return self._schemas[number]

    def register(self, subject: str, schema: str) -> int:
        """Register a schema under a subject and return its id. Raises `PipelineError`, also if the schema is not compatible."""
        key = (subject, schema)
        with self._lock:
            if key not in self._ids:
                path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"
                body = self._ask(path, json.dumps({"schema": schema}).encode())
                if body is None:
                    raise PipelineError(f"the registry at {self._registry.url} accepts no schemas for subject {subject!r}")
                self._ids[key] = self._decoded(body, _Id).id
            return self._ids[key]

    def _decoded(self, body: bytes, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise PipelineError(f"the server at {self._registry.url} is not a schema registry") from None

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
            raise PipelineError(f"{who} returned {answer.status} for {path}: {said}")
        return answer.body


_clients: dict[Registry, RegistryClient] = {}
_clients_lock = threading.Lock()


def client_of(registry: Registry) -> RegistryClient:
    """Return the client that the tasks of this process share."""
    with _clients_lock:
        return _clients.setdefault(registry, RegistryClient(registry))


class Decoder:
    """Decodes values, whose schemas are in the registry, to records of one schema. Missing fields are None."""

    def __init__(self, client: RegistryClient, schema: str) -> None:
        """``schema`` is a Spark schema of plain columns. Raises `PipelineError`."""
        from fastavro import parse_schema

        self._client = client
        self._reader = parse_schema(json.loads(avro_schema(schema)))
        self._writers: dict[int, Any] = {}

    def decode(self, value: bytes | None) -> dict[str, Any] | None:
        """Decode a record; None for bytes in another format. Raises `PipelineError` if the registry does not answer."""
        if value is None or len(value) < HEAD_BYTES or value[:1] != MAGIC:
            return None
        writer = self._writer(int.from_bytes(value[1:HEAD_BYTES], "big"))
        if writer is None:
            return None
        from fastavro import schemaless_reader

        source = io.BytesIO(value[HEAD_BYTES:])
        try:
            record = schemaless_reader(source, writer, self._reader)
        except Exception:
            # The bytes are invalid. fastavro raises many types of exceptions.
            return None
        return record if isinstance(record, dict) and not source.read(1) else None

    def _writer(self, number: int) -> Any:
        """Return the parsed Avro schema with this id; None for an unknown id. Raises `PipelineError` for an invalid schema."""
        if number in self._writers:
            return self._writers[number]
        text = self._client.schema(number)
        if text is None:
            # Do not cache this, because the schema may be registered later.
            return None
        if len(self._writers) >= MAX_SCHEMAS:
            self._writers.clear()
        self._writers[number] = self._parsed(number, text)
        return self._writers[number]

    def _parsed(self, number: int, text: str) -> Any:
        from fastavro import parse_schema

        try:
            parsed = json.loads(text)
            if isinstance(parsed, dict) and parsed.get("type") == "record":
                # Avro compares records by name, so the writer's schema gets the name of the reader's schema.
                parsed = {**parsed, "name": "Value", "namespace": ""}
            return parse_schema(parsed)
        except Exception as error:
            # fastavro raises many types of exceptions. Returning None would silently drop all values of the schema.
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise PipelineError(
                f"schema {number} of the registry cannot be read ({what}): schemas with references to other schemas are not"
                " supported"
            ) from None
