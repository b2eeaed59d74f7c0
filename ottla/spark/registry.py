"""A schema registry (Confluent's interface), and values in its wire format: a zero, the schema's id in four bytes, Avro.

The registry is asked by two requests, each answer is kept: executors need no HTTP client of a library for that.
"""

from __future__ import annotations

import base64
import io
import json
import urllib.parse
from typing import Any, Final

import msgspec

from ottla.spark.avro import avro_schema
from ottla.spark.connecting import Secret
from ottla.spark.errors import PipelineError
from ottla.spark.http_client import ask, check_url

MAX_SCHEMAS: Final = 1_000
"""That one process keeps: a value names any id that it likes."""
MAGIC: Final = b"\0"
HEAD_BYTES: Final = 5
_KIND: Final = "application/vnd.schemaregistry.v1+json"


class Registry(msgspec.Struct, frozen=True):
    """Where it is, and how to get in: ``user`` and ``password``, or a bearer ``token``; goes to executors pickled."""

    url: str
    user: str = ""
    password: Secret = Secret("")
    token: Secret = Secret("")

    def __post_init__(self) -> None:
        """Raises `PipelineError`."""
        check_url("a registry's URL", self.url, "Registry's user and password beside it")


class _Schema(msgspec.Struct):
    """A registry leaves the type out for Avro."""

    schema: str
    kind: str = msgspec.field(default="AVRO", name="schemaType")


class _Id(msgspec.Struct):
    id: int


def subject_of(topic: str, record: str = "", *, strategy: str = "topic", is_key: bool = False) -> str:
    """As Confluent's name strategies have it: ``topic``, ``record`` or ``topic-record``. Raises `PipelineError`."""
    subjects = {"topic": f"{topic}-{'key' if is_key else 'value'}", "record": record, "topic-record": f"{topic}-{record}"}
    if strategy not in subjects:
        raise PipelineError(f"a subject's name strategy is {', '.join(subjects)}, and not {strategy!r}")
    if strategy != "topic" and not record:
        raise PipelineError(f"the name strategy {strategy!r} needs the record's full name")
    return subjects[strategy]


class RegistryClient:
    """Asks a registry; what it has said of an id or of a subject's schema does not change, and is kept."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas: dict[int, str | None] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def schema(self, number: int) -> str | None:
        """Avro's text of an id; None for one that the registry does not know, or that is no Avro. Raises `PipelineError`."""
        if number not in self._schemas:
            if len(self._schemas) >= MAX_SCHEMAS:
                self._schemas.clear()
            body = self._ask(f"/schemas/ids/{number}", None)
            said = None if body is None else self._decoded(body, _Schema)
            self._schemas[number] = said.schema if said is not None and said.kind == "AVRO" else None
        return self._schemas[number]

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema under a subject, which has it from now on. Raises `PipelineError`, also where it does not fit."""
        key = (subject, schema)
        if key not in self._ids:
            body = self._ask(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions", json.dumps({"schema": schema}).encode())
            if body is None:
                raise PipelineError(f"the registry at {self._registry.url} takes no schemas for subject {subject!r}")
            self._ids[key] = self._decoded(body, _Id).id
        return self._ids[key]

    def _decoded(self, body: bytes, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise PipelineError(f"what answers at {self._registry.url} is no schema registry") from None

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
            raise PipelineError(f"{who} answers {path} with {answer.status}: {said}")
        return answer.body


def framed(number: int, avro: bytes) -> bytes:
    return MAGIC + number.to_bytes(4, "big") + avro


class Decoder:
    """Values of any schema that the registry has, as records of one's own: fields that a value lacks are None."""

    def __init__(self, client: RegistryClient, schema: str) -> None:
        """``schema`` is Spark's, of plain columns. Raises `PipelineError`."""
        from fastavro import parse_schema

        self._client = client
        self._reader = parse_schema(json.loads(avro_schema(schema)))
        self._writers: dict[int, Any] = {}

    def decode(self, value: bytes | None) -> dict[str, Any] | None:
        """None for bytes that are no such value. Raises `PipelineError` where the registry cannot be asked."""
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
            # What anybody may have written: fastavro raises whatever it stumbles upon.
            return None
        return record if isinstance(record, dict) and not source.read(1) else None

    def _writer(self, number: int) -> Any:
        if number not in self._writers:
            from fastavro import parse_schema

            if len(self._writers) >= MAX_SCHEMAS:
                self._writers.clear()
            text = self._client.schema(number)
            try:
                # Its name is not ours: Avro resolves records by their names, and these are the same by their place.
                parsed = None if text is None else json.loads(text)
                if isinstance(parsed, dict) and parsed.get("type") == "record":
                    parsed = {**parsed, "name": "Value", "namespace": ""}
                self._writers[number] = None if parsed is None else parse_schema(parsed)
            except Exception:
                self._writers[number] = None
        return self._writers[number]
