"""HTTP requests over a socket: timeouts of slow clients, and responses to malformed requests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from ottla.http import http_requests, http_server
from ottla.http.http_requests import MAX_TOLD, HttpExchange
from ottla.http.http_server import CLOSE_TIMEOUT_S, MAX_CONNECTIONS, BoundedHttpServer
from tests.support.waiting import wait_until

SILENCE_S = 0.5
HANGS_S = 60
MUCH_BYTES = 16 << 20
"""Size of a response that exceeds the buffers of a connection."""
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
MUCH = b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


class Served:
    """A server whose app returns the request's method and body, fails, waits, or returns much data."""

    def __init__(self) -> None:
        self.bugs = 0
        self.goes_on = threading.Event()
        self.left: list[bool] = []
        self.ended = threading.Event()
        self.server = BoundedHttpServer("127.0.0.1", 0, self._app, self._count, own_names={"broker.example"})
        self.server.serve()

    def _count(self) -> None:
        self.bugs += 1

    def _app(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/fails":
            raise KeyError("a bug")
        if environ["PATH_INFO"] == "/waits":
            while not environ[http_requests.HAS_LEFT]() and not self.goes_on.wait(0.01):
                pass
            self.left.append(environ[http_requests.HAS_LEFT]())
            self.ended.set()
        if environ["PATH_INFO"] == "/much":
            start_response("200 OK", [])
            return self._much()
        body = environ["wsgi.input"].read()
        answer = f"{environ['REQUEST_METHOD']} {body.decode()}".encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
        return [answer]

    def _much(self) -> Iterator[bytes]:
        try:
            yield bytes(MUCH_BYTES)
        finally:
            self.ended.set()

    def close(self) -> None:
        self.server.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), HANGS_S)

    def tell(self, *pieces: bytes, ends: bool = False, pause_s: float = 0.0) -> tuple[int, bytes]:
        """Send `pieces` one after the other. Returns the status and body of the response."""
        with self.connect() as client:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause_s)
            if ends:
                client.shutdown(socket.SHUT_WR)
            return answer_of(client)


def answer_of(client: socket.socket) -> tuple[int, bytes]:
    got = b""
    while piece := client.recv(65_536):
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def test_http_request_body_is_read_completely(served: Served) -> None:
    assert served.tell(POST + b"Content-Length: 4\r\n\r\n", b"ab", b"cd", pause_s=0.05) == (200, b"POST abcd")


def test_chunked_http_request_body_is_read(served: Served) -> None:
    assert served.tell(CHUNKED, b"2\r\n[]\r\n", b"0\r\n\r\n", pause_s=0.05) == (200, b"POST {}[]")


def test_http_client_that_half_closes_its_connection_gets_the_response(served: Served) -> None:
    """Such a client is ``printf ... | nc``, as used in containers."""
    assert served.tell(GET + b"\r\n", ends=True) == (200, b"GET ")


def test_http_connections_above_the_limit_get_503(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_WAIT_S", SILENCE_S)
    silent = [served.connect() for _ in range(MAX_CONNECTIONS)]
    for _ in range(3):
        status, body = served.tell(POST + b"Content-Length: 4\r\n\r\nabcd")
        told = "16 connections are open, which is the maximum; close one or try again later"
        assert (status, msgspec.json.decode(body)) == (503, {"error": told})
    silent.pop().close()
    wait_until(lambda: len(served.server._clients) < MAX_CONNECTIONS)
    assert served.tell(GET + b"\r\n") == (200, b"GET ")
    for client in silent:
        client.close()


def test_http_connections_beyond_the_limit_of_503_responses_are_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_WAIT_S", SILENCE_S)
    silent = [served.connect() for _ in range(2 * MAX_CONNECTIONS)]
    with served.connect() as above:
        assert above.recv(1) == b""
    for client in silent:
        client.close()
    wait_until(lambda: not served.server._clients and not served.server._refused)
    assert served.tell(GET + b"\r\n") == (200, b"GET ")


def test_more_http_clients_than_the_connection_limit_are_all_answered(served: Served) -> None:
    """Clients above the limit wait, because closing a connection with an unread request would reset it."""
    clients = [served.connect() for _ in range(6 * MAX_CONNECTIONS)]
    for client in clients:
        client.sendall(POST + b"Content-Length: 1\r\n\r\na")
    assert [answer_of(client) for client in clients] == [(200, b"POST a")] * len(clients)
    for client in clients:
        client.close()


@pytest.mark.parametrize("host", [b"Host: evil.example\r\n", b"Host: 127.0.0.1.evil.example:80\r\n", b""])
def test_http_request_with_an_unknown_host_does_not_reach_the_app(served: Served, host: bytes) -> None:
    status, body = served.tell(b"GET /fails HTTP/1.0\r\n" + host + b"\r\n")
    assert (status, "this host name is not accepted" in msgspec.json.decode(body)["error"]) == (403, True)
    assert served.bugs == 0


def test_host_header_may_be_an_advertised_name_of_the_broker(served: Served) -> None:
    assert served.tell(b"GET / HTTP/1.1\r\nHost: Broker.example:1\r\n\r\n") == (200, b"GET ")


def test_wsgi_app_is_notified_when_its_client_disconnects(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not served.ended.wait(0.1)
    assert served.ended.wait(HANGS_S)
    assert served.left == [True]


def test_http_server_can_be_closed_while_a_request_waits(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: len(served.server._clients) == 1)
        begun_s = time.monotonic()
        served.close()
        assert time.monotonic() - begun_s < CLOSE_TIMEOUT_S
        served.goes_on.set()
        assert answer_of(client)[0] == 200


class SlowReader:
    """A connection whose client reads one part of the response after the other, each just before the connection's timeout."""

    def __init__(self, request: bytes, part_bytes: int) -> None:
        self._requests = iter([request])
        self._part_bytes = part_bytes
        self._timeout_s = 0.0
        self.read = b""
        self.elapsed_s = 0.0

    def settimeout(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def recv(self, _: int) -> bytes:
        return next(self._requests)

    def send(self, data: memoryview) -> int:
        self.elapsed_s += 0.9 * self._timeout_s
        self.read += data[: self._part_bytes]
        return min(len(data), self._part_bytes)


def test_slow_http_client_gets_the_whole_response() -> None:
    """The timeout applies to each part that the client reads: all parts together may take longer."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "1000")])
        return [b"x" * 1_000]

    client = SlowReader(GET + b"\r\n", 10)
    connection: Any = client
    exchange = HttpExchange(connection, app, lambda: pytest.fail("a bug"), lambda status, text: {}, lambda environ: None)
    exchange.run()
    assert client.read.endswith(b"x" * 1_000)
    assert client.elapsed_s > 50 * http_requests.IDLE_TIMEOUT_S


@pytest.mark.smoke
def test_http_client_that_reads_nothing_is_disconnected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "IDLE_TIMEOUT_S", SILENCE_S)
    with served.connect() as client:
        client.sendall(MUCH)
        assert served.ended.wait(HANGS_S)
        wait_until(lambda: not served.server._clients)
    assert served.bugs == 0


def test_response_to_a_head_request_has_no_body(served: Served) -> None:
    assert served.tell(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n") == (200, b"")
    assert served.tell(b"HEAD /fails HTTP/1.1\r\nHost: localhost\r\n\r\n") == (500, b"")


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "told"),
    [
        (POST + b"Content-Length: 500\r\n\r\n{}", 400, "received 2 bytes, expected 500"),
        (POST + b"Content-Length: -1\r\n\r\n", 400, "bad Content-Length"),
        (POST + b"Content-Length: 1_0\r\n\r\n", 400, "bad Content-Length"),
        (POST + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n", 400, "bad Content-Length"),
        (
            POST + b"Content-Length: 1048577\r\n\r\n" + b"x" * 1_048_577,
            413,
            "the body is too large; at most 1048576 bytes are allowed",
        ),
        (b"nonsense\r\n\r\n", 400, "illegal request line"),
        (b"a b c d " + b"x" * 60_000 + b"\r\n\r\n", 400, "illegal request line"),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431, "Receive buffer too long"),
        (GET + b"A: " + b"x" * 100_000 + b"\r\n\r\n", 431, "Receive buffer too long"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Missing mandatory Host: header"),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501, "Only Transfer-Encoding: chunked is supported"),
        (CHUNKED + b"100001\r\n" + b"x" * 1_048_577, 413, "the body is too large; at most 1048576 bytes are allowed"),
    ],
)
def test_malformed_http_requests_are_refused_in_json(served: Served, sent: bytes, status: int, told: str) -> None:
    got, body = served.tell(sent, ends=True)
    error = msgspec.json.decode(body)["error"]
    assert (got, told in error) == (status, True), error
    assert len(error) <= MAX_TOLD


@pytest.mark.smoke
def test_incomplete_http_request_body_times_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "IDLE_TIMEOUT_S", SILENCE_S)
    status, body = served.tell(POST + b"Content-Length: 500\r\n\r\n{}")
    assert (status, "only 2 bytes were received" in msgspec.json.decode(body)["error"]) == (408, True)


@pytest.mark.full
@pytest.mark.parametrize("begun", [GET + b"A: ", POST + b"Content-Length: 500\r\n\r\n"])
def test_slowly_sent_http_request_times_out(served: Served, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """The timeout is for the whole request and is not extended by further bytes."""
    monkeypatch.setattr(http_requests, "REQUEST_TIMEOUT_S", 2 * SILENCE_S)
    with served.connect() as client:
        client.sendall(begun)
        begun_s = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - begun_s < HANGS_S:
                client.sendall(b"x")
                time.sleep(SILENCE_S / 10)


def test_exception_in_the_wsgi_app_is_logged_counted_and_answered(served: Served) -> None:
    with capture_logs() as lines:
        status, body = served.tell(b"GET /fails HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (status, msgspec.json.decode(body)["error"]) == (
        500,
        "an unexpected error has occurred; the broker's log has the details",
    )
    assert served.bugs == 1
    ((event, path, trace),) = [(line["event"], line["path"], line["exc_info"]) for line in lines]
    assert (event, path, trace[0]) == ("http_request_failed", "/fails", KeyError)
