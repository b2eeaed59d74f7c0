"""An HTTP exchange has one deadline, however a server distributes its bytes over time."""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Callable
from urllib.error import URLError

import pytest
import trustme

from ottla.client.security.http_deadline import TOO_LONG, ExchangeDeadline
from tests.client.security.listener import listening

pytestmark = pytest.mark.wire

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def drained(connection: socket.socket) -> None:
    """Wait until the client closes the connection."""
    while connection.recv(1 << 16):
        pass


def dripping(clock: list[float], data: bytes) -> Callable[[socket.socket], None]:
    """Return a server that sends single bytes. Each byte takes 100 seconds of the client's clock.

    The server closes the connection of a client that waits for more bytes, so that the client fails with another error.
    """

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        for byte in data:
            clock[0] += 100
            connection.sendall(bytes([byte]))
        connection.settimeout(1)
        drained(connection)

    return serve


@pytest.mark.parametrize("data", [b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nserver: x", OK[:-1], b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_response_that_arrives_in_single_bytes_is_given_up_at_the_deadline(data: bytes) -> None:
    clock = [0.0]
    opener = ExchangeDeadline(1_000, lambda: clock[0]).opener()
    with listening(dripping(clock, data)) as (host, port), pytest.raises((TimeoutError, URLError), match=TOO_LONG):
        opener.open(f"http://{host}:{port}/", timeout=1_000).read()


def test_redirects_share_the_deadline() -> None:
    """Each redirect takes a second of the client's clock."""
    clock, requests = [0.0], itertools.count(1)

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        clock[0] += 1
        to = f"/{next(requests)}".encode()
        connection.sendall(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: " + to + b"\r\n\r\n")

    with listening(serve) as (host, port), pytest.raises((TimeoutError, URLError), match=TOO_LONG):
        ExchangeDeadline(5, lambda: clock[0]).opener().open(f"http://{host}:{port}/", timeout=5)
    assert next(requests) <= 6


def test_tls_handshake_ends_at_the_deadline() -> None:
    """The server accepts the connection, and never answers the ClientHello."""
    with listening(drained) as (host, port), pytest.raises(URLError, match="timed out"):
        ExchangeDeadline(0.2, iter([0.0] * 100).__next__).opener().open(f"https://{host}:{port}/", timeout=10)


def test_response_in_time_is_read_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(OK)

    with authority.cert_pem.tempfile() as trusted, listening(serve, context) as (host, port):
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
        with ExchangeDeadline(10, lambda: 0.0).opener().open(f"https://{host}:{port}/", timeout=10) as response:
            assert response.read() == b"{}"


def test_host_without_a_server_is_refused_like_by_urllib() -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(URLError, match="refused"):
        ExchangeDeadline(10, lambda: 0.0).opener().open(f"http://localhost:{port}/", timeout=10)


def test_connection_that_is_open_only_after_the_deadline_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, connected = [0.0], list[socket.socket]()
    original = socket.create_connection

    def connect_late(*given: object) -> socket.socket:
        connected.append(original(*given))  # type: ignore[arg-type]
        clock[0] = 10
        return connected[0]

    monkeypatch.setattr(socket, "create_connection", connect_late)
    with listening(drained) as address, pytest.raises(TimeoutError, match=TOO_LONG):
        ExchangeDeadline(5, lambda: clock[0]).connect(address, 5)
    assert connected[0].fileno() == -1
