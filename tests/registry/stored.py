"""A registry without a broker: its log is a list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ottla.client.security.http_client import HttpResponse
from ottla.registry.compilations import Compilations
from ottla.registry.errors import RegistryError
from ottla.registry.formats.types import identity
from ottla.registry.records import RegistryRecord
from ottla.registry.request import RegistryRequest, parsed_target
from ottla.registry.routes import Routes, Text
from ottla.registry.state import RegistryState


class ListLog:
    """A schema log in memory, with the methods of `SchemaLog` that `Routes` uses."""

    def __init__(self) -> None:
        self.records: list[RegistryRecord] = []
        self.state = RegistryState(identity)
        self.is_held = False

    @contextmanager
    def current(self) -> Iterator[RegistryState]:
        assert not self.is_held
        self.is_held = True
        try:
            yield self.state
        finally:
            self.is_held = False

    def append(self, records: Sequence[RegistryRecord]) -> None:
        for record in records:
            self.records.append(record)
            self.state.replay(record.key, record.value)

    def cluster_id(self) -> str:
        return "the-cluster"

    def replayed(self) -> RegistryState:
        """Return the state of a registry that is started on these records."""
        state = RegistryState(identity)
        for record in self.records:
            state.replay(record.key, record.value)
        return state


URL = "http://127.0.0.1:8081"


class StoredRegistry:
    """A client of a registry without a broker or HTTP."""

    def __init__(self) -> None:
        self.log = ListLog()
        self.routes = Routes(self.log, Compilations())  # type: ignore[arg-type]
        self._lock = threading.Lock()

    def http(self, who: str, url: str, body: bytes | None, headers: Any, *, method: str | None = None) -> HttpResponse:
        """Replace `http_client.ask` in `registry_client`, for a registry at `URL`. Threads may call it."""
        sent = method or ("GET" if body is None else "POST")
        try:
            with self._lock:
                answer = self.ask(sent, url.removeprefix(URL), None if body is None else json.loads(body))
        except RegistryError as error:
            return HttpResponse(error.status, "", json.dumps({"error_code": error.code, "message": str(error)}).encode())
        return HttpResponse(200, "OK", msgspec.json.encode(answer))

    def ask(self, method: str, target: str, body: Any = None) -> Any:
        """Return the response. Raises `RegistryError`."""
        path, query = parsed_target(target)
        data = b"" if body is None else json.dumps(body).encode()
        answer = self.routes.answer(RegistryRequest(method=method, path=path, query=query, body=data))
        return answer.text if isinstance(answer, Text) else answer

    def code(self, method: str, target: str, body: Any = None) -> int:
        """Return the error code of a request that is refused."""
        try:
            answer = self.ask(method, target, body)
        except RegistryError as error:
            assert "\n" not in str(error)
            return int(error.code)
        raise AssertionError(f"{method} {target} was answered with {answer}")

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer: dict[str, int] = self.ask("POST", f"/subjects/{subject}/versions", {"schema": text, **more})
        return answer["id"]


def record(name: str, *fields: str, **more: Any) -> dict[str, Any]:
    """Return an Avro record whose fields are ``NAME:TYPE`` or ``NAME:TYPE=DEFAULT``, with the default in JSON."""
    described = []
    for field in fields:
        typed, _, default = field.partition("=")
        label, _, kind = typed.partition(":")
        described.append({"name": label, "type": kind, **({"default": json.loads(default)} if default else {})})
    return {"type": "record", "name": name, "fields": described, **more}
