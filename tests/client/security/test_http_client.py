"""Unexpected responses of HTTP servers to a client that sends a secret."""

from __future__ import annotations

import itertools
import socket
import traceback
from collections.abc import Callable

import pytest

from ottla.client.errors import ClientError
from ottla.client.security import http_client
from ottla.client.security.client_config import Secret, TokenEndpoint
from ottla.client.security.http_client import HttpResponse, ask, check_url
from tests.client.security.listener import listening

HEADERS = {"Authorization": "Basic hush"}


def saying(data: bytes, seen: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        head = connection.recv(1 << 16)
        if seen is not None:
            seen.append(head)
        connection.sendall(data)

    return serve


def answer_to(data: bytes, timeout_s: float = 5, now_s: Callable[[], float] | None = None) -> HttpResponse:
    with listening(saying(data)) as (host, port):
        clock = {} if now_s is None else {"now_s": now_s}
        return ask("it", f"http://{host}:{port}/x", None, HEADERS, timeout_s=timeout_s, **clock)


def refused(data: bytes, **how: object) -> str:
    with pytest.raises(ClientError) as error:
        answer_to(data, **how)  # type: ignore[arg-type]
    line = str(error.value)
    assert line.startswith("it ")
    assert "\n" not in line
    assert "hush" not in "".join(traceback.format_exception(error.value))
    return line


@pytest.mark.wire
def test_http_client_returns_an_error_status_as_a_response() -> None:
    assert answer_to(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") == HttpResponse(200, "OK", b"{}")
    error = b"HTTP/1.1 503 Not Today\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000
    assert answer_to(error) == HttpResponse(503, "Not Today", b"x" * http_client.MAX_ERROR_BYTES)


@pytest.mark.wire
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_http_redirects_are_not_followed(status: int) -> None:
    """The headers contain a secret and are meant only for the configured host."""
    seen: list[bytes] = []
    with listening(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", seen)) as (_, port):
        to = f"http://me:hush@127.0.0.1:{port}/"
        line = refused(b"HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, to.encode()))
    assert line == "it redirects to 127.0.0.1, which is not followed: give that URL"
    assert not seen


@pytest.mark.wire
@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", "does not answer"),
        (b"garbage\r\n\r\n", "does not answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "does not answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "does not answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", "does not answer"),
    ],
)
def test_malformed_http_responses_are_refused(data: bytes, line: str) -> None:
    assert line in refused(data)


@pytest.mark.wire
def test_http_response_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_ANSWER_BYTES", 1_000)
    assert "more than 1,000 bytes" in refused(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000)
    assert "takes too long" in refused(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 500, now_s=itertools.count(0.0, 10.0).__next__)


def test_http_client_refuses_and_hides_a_password_in_a_url() -> None:
    for url in ("https://me:hush@host/token", "https://me:hush@[host"):
        with pytest.raises(ClientError, match="contains a user or a password") as error:
            TokenEndpoint(url, "me", Secret("x"))
        assert "hush" not in str(error.value)
        assert error.value.__context__ is None


@pytest.mark.parametrize(
    "url", ["", "file:///etc", "registry:8081", "http://", "http://h:x/", "http://h:0/", "http://h/a b", "http://h/\n"]
)
def test_invalid_http_client_urls_are_refused(url: str) -> None:
    with pytest.raises(ClientError, match="the URL must begin with https:// or http:// and a host"):
        check_url("the URL", url, "")
