"""HTTP requests over a socket: timeouts of slow clients, and responses to malformed requests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from ottla.broker.http import http_requests
from ottla.broker.http.http_requests import MAX_TOLD, RequestServer, _Writer
from ottla.broker.http.http_server import MAX_CONNECTIONS

SILENCE_S = 0.5
HANGS_S = 60
DATA = bytes(400_000)


def test_slow_reader_gets_the_whole_response() -> None:
    """The timeout applies to each send: all sends together may take longer."""
    sent = bytearray()

    class Slow:
        def send(self, data: memoryview) -> int:
            sent.extend(data[: len(DATA) // 30])
            return len(data[: len(DATA) // 30])

    assert _Writer(cast(Any, Slow())).write(memoryview(DATA)) == len(DATA)
    assert sent == DATA


@pytest.mark.smoke
def test_client_that_reads_nothing_is_disconnected() -> None:
    sending, reading = socket.socketpair()
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    sending.settimeout(SILENCE_S)
    with sending, reading, pytest.raises(BrokenPipeError):
        _Writer(sending).write(DATA)


# requests over a socket


class Served:
    """A server whose app returns the request's method and body, or fails."""

    def __init__(self) -> None:
        self.bugs = 0
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.server = RequestServer(listening, self._app, MAX_CONNECTIONS, self._count)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def _count(self) -> None:
        self.bugs += 1

    def _app(self, environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/fails":
            raise KeyError("a bug")
        body = environ["wsgi.input"].read()
        answer = f"{environ['REQUEST_METHOD']} {body.decode()}".encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
        return [answer]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.socket.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, HANGS_S)

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


def test_request_body_is_read_completely(served: Served) -> None:
    assert served.tell(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n", b"ab", b"cd", pause_s=0.05) == (200, b"POST abcd")


def test_response_to_head_has_no_body(served: Served) -> None:
    assert served.tell(b"HEAD / HTTP/1.1\r\n\r\n") == (200, b"")
    assert served.tell(b"HEAD /fails HTTP/1.1\r\n\r\n") == (500, b"")
    assert served.tell(b"HEAD / HTTP/3.1\r\n\r\n") == (505, b"")


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "told"),
    [
        (CHUNKED, 411, "send the size of the body in Content-Length; Transfer-Encoding is not supported"),
        (b"POST / HTTP/1.1\r\nContent-Length: 500\r\n\r\n{}", 400, "the body ends after 2 of 500 bytes"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "Content-Length is not a number of bytes"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n", 400, "Content-Length is not a number of bytes"),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n", 400, "Content-Length is not a number of bytes"),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n" + b"x" * 1_048_577,
            400,
            "the body is too large; at most 1048576 bytes are allowed",
        ),
        (b"nonsense\r\n\r\n", 400, "Bad request syntax ('nonsense')"),
        (b"a b c d " + b"x" * 60_000 + b"\r\n\r\n", 400, "Bad request"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414, "URI Too Long"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000 + b"\r\n\r\n", 431, "Line too long"),
        (b"GET / HTTP/3.1\r\n\r\n", 505, "Invalid HTTP version (3.1)"),
    ],
)
def test_malformed_http_requests_are_refused_in_json(served: Served, sent: bytes, status: int, told: str) -> None:
    got, body = served.tell(sent, ends=True)
    error = msgspec.json.decode(body)["error"]
    assert (got, told in error) == (status, True), error
    assert len(error) <= MAX_TOLD


@pytest.mark.smoke
def test_incomplete_request_body_times_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "IDLE_TIMEOUT_S", SILENCE_S)
    status, body = served.tell(b"POST / HTTP/1.1\r\nContent-Length: 500\r\n\r\n{}")
    assert (status, "2 of 500 bytes" in msgspec.json.decode(body)["error"]) == (408, True)


@pytest.mark.full
@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nA: ", b"POST / HTTP/1.1\r\nContent-Length: 500\r\n\r\n"])
def test_slowly_sent_request_times_out(served: Served, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """The timeout is for the whole request and is not extended by further bytes."""
    monkeypatch.setattr(http_requests, "REQUEST_TIMEOUT_S", 2 * SILENCE_S)
    with served.connect() as client:
        client.sendall(begun)
        begun_s = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - begun_s < HANGS_S:
                client.sendall(b"x")
                time.sleep(SILENCE_S / 10)


def test_app_error_is_logged_counted_and_answered(served: Served) -> None:
    with capture_logs() as lines:
        status, body = served.tell(b"GET /fails HTTP/1.1\r\n\r\n")
    assert (status, msgspec.json.decode(body)["error"]) == (
        500,
        "an unexpected error has occurred; the broker's log has the details",
    )
    assert served.bugs == 1
    ((event, path, trace),) = [(line["event"], line["path"], line["exc_info"]) for line in lines]
    assert (event, path, trace[0]) == ("http_request_failed", "/fails", KeyError)
