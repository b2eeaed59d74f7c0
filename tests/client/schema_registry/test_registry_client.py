"""What a client of a schema registry caches. These tests run without a registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.schema_registry import registry_client
from ottla.client.schema_registry.registry_client import (
    AVRO,
    JSON,
    MAX_CLIENTS,
    MAX_SCHEMAS,
    SUBJECTS_S,
    Registry,
    RegistryClient,
    SchemaReference,
    client_of,
)
from ottla.client.security.http_client import HttpResponse

URL = "http://127.0.0.1:8081"
Answer = Callable[[str], HttpResponse]


class Requests:
    """Answers requests in place of a registry, and records their paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.answer: Answer = lambda path: HttpResponse(200, "OK", json.dumps({"id": len(self.paths)}).encode())

    def ask(self, who: str, url: str, body: bytes | None, headers: Any, *, method: str | None = None) -> HttpResponse:
        self.paths.append(url.removeprefix(URL))
        return self.answer(self.paths[-1])


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    made = Requests()
    monkeypatch.setattr(registry_client, "ask", made.ask)
    return made


def test_registry_client_registers_a_schema_once_for_each_type_and_references(requests: Requests) -> None:
    client = RegistryClient(Registry(URL))
    reference = SchemaReference("a.json", "a", 1)
    for _ in range(2):
        assert client.register("s", "{}", JSON) == 1
        assert client.register("s", "{}", AVRO) == 2
        assert client.register("s", "{}", JSON, [reference]) == 3
        assert client.register("s", "{}", JSON, [SchemaReference("a.json", "a", 2)]) == 4
    assert len(requests.paths) == 4


def test_registry_client_caches_a_limited_number_of_schemas_and_clients(requests: Requests) -> None:
    client = RegistryClient(Registry(URL))
    for number in range(MAX_SCHEMAS + 1):
        client.register("s", str(number))
    assert client.register("s", str(MAX_SCHEMAS)) == MAX_SCHEMAS + 1
    assert client.register("s", "0") == MAX_SCHEMAS + 2
    first = client_of(Registry(URL))
    assert client_of(Registry(URL)) is first
    for number in range(MAX_CLIENTS):
        client_of(Registry(URL, user=f"user-{number}"))
    assert client_of(Registry(URL)) is not first


def test_unknown_schema_ids_do_not_displace_a_schema_in_use(requests: Requests) -> None:
    requests.answer = lambda path: (
        HttpResponse(200, "OK", b'{"schema":"{}"}') if path.endswith("/7") else HttpResponse(404, "", b"")
    )
    client = RegistryClient(Registry(URL), lambda: 0.0)
    for number in range(8, MAX_SCHEMAS + 20):
        assert client.schema(7) is not None
        assert client.schema(number) is None
    assert requests.paths.count("/schemas/ids/7") == 1


def test_registry_client_requests_the_subjects_of_a_schema_again_after_a_while(requests: Requests) -> None:
    names = ["a"]
    requests.answer = lambda path: HttpResponse(200, "OK", json.dumps(names).encode())
    now = [0.0]
    client = RegistryClient(Registry(URL), lambda: now[0])
    assert client.subjects(1) == ["a"]
    names.append("b")
    now[0] = SUBJECTS_S - 1
    assert client.subjects(1) == ["a"]
    now[0] = SUBJECTS_S
    assert client.subjects(1) == ["a", "b"]


def test_slow_schema_request_does_not_block_other_schemas_and_is_shared(requests: Requests) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(path: str) -> HttpResponse:
        if path == "/schemas/ids/1":
            is_asked.set()
            assert may_answer.wait(60)
        return HttpResponse(200, "OK", b'{"schema":"{}"}')

    requests.answer = answer
    client = RegistryClient(Registry(URL))
    with ThreadPoolExecutor(3) as pool:
        slow = [pool.submit(client.schema, 1) for _ in range(2)]
        try:
            assert is_asked.wait(60)
            assert pool.submit(client.schema, 2).result(5) is not None
        finally:
            may_answer.set()
        assert slow[0].result() is slow[1].result()
    assert sorted(requests.paths) == ["/schemas/ids/1", "/schemas/ids/2"]


def test_failed_schema_request_is_not_cached(requests: Requests) -> None:
    requests.answer = lambda path: HttpResponse(503, "", b"not today")
    client = RegistryClient(Registry(URL))
    for _ in range(2):
        with pytest.raises(ClientError, match="returned 503"):
            client.schema(1)
    assert len(requests.paths) == 2
