"""Values that the console decodes with a registry's schemas, and failures of the registry."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.schema_registry import registry_client
from ottla.client.schema_registry.registry_client import Registry
from ottla.client.security.http_client import HttpResponse
from ottla.console.decoding import decode
from ottla.console.registered_values import FAILURE_S, RegistryValues


class FakeRegistry:
    """Answers requests for schemas, each of which takes ``delay_s``. ``schemas`` are JSON Schemas by id."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.delay_s = 0.0
        self.asked: list[str] = []
        self.failure: ClientError | None = None
        self.body = b'{"schema": "{}", "schemaType": "JSON"}'
        monkeypatch.setattr(registry_client, "ask", self.ask)
        self.values = RegistryValues(lambda: Registry("http://registry"), lambda: self.now_s)

    def ask(self, who: str, url: str, *_: Any, **__: Any) -> HttpResponse:
        self.asked.append(url.removeprefix("http://registry"))
        self.now_s += self.delay_s
        if self.failure is not None:
            raise self.failure
        if url.endswith("/subjects"):
            return HttpResponse(200, "OK", b"[]")
        return HttpResponse(404, "Not Found", b"") if "/9" in url else HttpResponse(200, "OK", self.body)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    return FakeRegistry(monkeypatch)


def framed(payload: bytes, number: int = 1) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def test_console_decodes_a_value_with_its_registered_schema(registry: FakeRegistry) -> None:
    for form in ("auto", "schema"):
        found = decode(framed(b'{"a": [1, "x"]}'), form, registry.values)
        assert (found.kind, found.text, found.is_json, found.problem) == ("json-schema", '{"a":[1,"x"]}', True, "")
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/1/subjects"], "schemas are cached"


def test_console_shows_a_value_that_no_schema_decodes_in_its_recognised_format(registry: FakeRegistry) -> None:
    assert decode(b"text", registered=registry.values).kind == "text"
    assert decode((5).to_bytes(8, "big"), registered=registry.values).kind == "int64"
    assert decode(framed(b"{", 1), registered=registry.values).problem == ""
    assert decode(framed(b"{}", 9), "schema", registry.values).problem == "no registry has a schema for this value"


@pytest.mark.parametrize("payload", [b'"\\ud800"', b"[%d]" % 2**70, b"[NaN]", b"[1e999]", b"[" * 200 + b"]" * 200])
def test_console_shows_a_hostile_registered_value_as_text(registry: FakeRegistry, payload: bytes) -> None:
    found = decode(framed(payload), registered=registry.values)
    assert found.text.encode()


def test_console_shows_a_failed_schema_request_and_does_not_repeat_it_at_once(registry: FakeRegistry) -> None:
    registry.failure = ClientError("the registry does not answer")
    for form, kind in (("schema", "hex"), ("auto", "text")):
        found = decode(framed(b"abcdefghijklmnopqrstuvwxyz0123456789abcdefghijkl"), form, registry.values)
        assert (found.kind, found.problem) == (kind, "the registry does not answer")
    assert len(registry.asked) == 1
    registry.failure = None
    assert decode(framed(b"{}", 2), "schema", registry.values).kind == "json-schema", "a quick failure counts for its schema only"
    registry.now_s += FAILURE_S
    assert decode(framed(b"{}"), "schema", registry.values).kind == "json-schema"


def test_console_does_not_repeat_a_slow_registry_failure_for_other_schemas(registry: FakeRegistry) -> None:
    registry.failure, registry.delay_s = ClientError("the registry does not answer"), 10.0
    for number in range(50):
        assert decode(framed(b"{}", 100 + number), registered=registry.values).problem == "the registry does not answer"
    assert len(registry.asked) == 1


def test_console_reports_a_registered_schema_that_cannot_be_read(registry: FakeRegistry) -> None:
    registry.body = b'{"schema": "{\\"type\\": \\"array\\", \\"items\\": \\"null\\"}"}'
    found = decode(framed(b"\x80\x80\x80\x80\x80\x80\x80\x80\x10\0"), "schema", registry.values)
    assert "schema 1 of the registry cannot be read (ValueError: a part of a value has too many objects: 1 in" in found.problem


def test_threads_share_one_client_of_the_registry() -> None:
    created: list[Registry] = []
    is_entered, may_go_on = threading.Event(), threading.Event()

    def registry() -> Registry:
        created.append(Registry("http://127.0.0.1:1"))
        is_entered.set()
        assert may_go_on.wait(60)
        return created[-1]

    values = RegistryValues(registry)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(values.client)
        assert is_entered.wait(60)
        others = [pool.submit(values.client) for _ in range(3)]
        may_go_on.set()
        assert len({id(one.result(60)) for one in (first, *others)}) == len(created) == 1
