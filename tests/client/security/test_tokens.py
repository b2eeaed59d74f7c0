"""Sources of bearer tokens, and the errors of functions and endpoints that return none."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.security.client_config import Sasl, Secret, Token, TokenEndpoint
from ottla.client.security.tokens import EndpointTokens, expiry_of, token_of

HERE = "tests.client.security.test_tokens"


def web_token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def given() -> str:
    return "token"


NO_FUNCTION = 7


def of(function: Any) -> Token:
    return token_of(Sasl("OAUTHBEARER", token=function))


def test_oauthbearer_token_function_may_return_text_a_pair_or_a_token_object() -> None:
    later = time.time() + 60
    assert of(given) == of(f"{HERE}:given") == Token(Secret("token"))
    assert of(lambda: ("token", later)) == of(lambda: Token(Secret("token"), later)) == Token(Secret("token"), later)


def test_oauthbearer_token_expiry_is_read_from_a_jwt() -> None:
    assert of(lambda: web_token({"exp": 1e11})).expires_s == 1e11
    assert expiry_of(web_token({"sub": "me"})) is None
    for text in ("", "a.b", "a.!.c", "a.b.c", web_token([]), web_token({"exp": "soon"}), web_token({"exp": None})):
        assert expiry_of(text) is None


def raising() -> str:
    raise ValueError("the password was hush")


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (raising, "raising returned no token: it raised ValueError"),
        (lambda: None, "returns a NoneType"),
        (lambda: ("token",), "returns a tuple"),
        (lambda: ("token", 1.0), "a token that expired"),
        (lambda: web_token({"exp": 1}), "a token that expired"),
        ("no.such.module:f", "cannot be imported on this machine"),
        (f"{HERE}:nothing", "cannot be imported on this machine"),
        (f"{HERE}:NO_FUNCTION", "is not a function"),
    ],
)
def test_invalid_result_of_an_oauthbearer_token_function_is_refused(function: Any, line: str) -> None:
    with pytest.raises(ClientError, match=line) as refused:
        of(function)
    assert str(refused.value).startswith("kafka.sasl.oauthbearer.token.function: ")
    assert "hush" not in str(refused.value)


@contextlib.contextmanager
def endpoint(answer: Callable[[str, str], tuple[int, bytes]]) -> Iterator[TokenEndpoint]:
    """Run a token endpoint. It returns the result of ``answer`` for a request's form and Authorization header."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, body = answer(form, self.headers["Authorization"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield TokenEndpoint(f"http://127.0.0.1:{server.server_port}/token", "me", Secret("hush"), "kafka")
        finally:
            server.shutdown()
            thread.join()


def test_oauthbearer_token_is_refreshed_before_it_expires() -> None:
    asked: list[tuple[dict[str, list[str]], str]] = []

    def answer(form: str, authorization: str) -> tuple[int, bytes]:
        asked.append((urllib.parse.parse_qs(form), authorization))
        return 200, json.dumps({"access_token": f"t{len(asked)}", "expires_in": 100, "token_type": "Bearer"}).encode()

    now = [1000.0]
    with endpoint(answer) as where:
        tokens = EndpointTokens(lambda: now[0])
        assert tokens.token(where) == Token(Secret("t1"), 1100.0)
        now[0] = 1079.0
        assert tokens.token(where).value == Secret("t1")
        now[0] = 1080.0
        assert tokens.token(where).value == Secret("t2")
    assert asked[0] == (
        {"grant_type": ["client_credentials"], "scope": ["kafka"]},
        "Basic " + base64.b64encode(b"me:hush").decode(),
    )


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ((401, b"hush"), "returned 401 Unauthorized"),
        ((200, b"hush"), "its response has no access_token"),
        ((200, b"\xff"), "its response has no access_token"),
        ((200, b'{"access_token": 1}'), "its response has no access_token"),
    ],
)
def test_token_endpoint_without_a_token_is_reported(answer: tuple[int, bytes], line: str) -> None:
    with endpoint(lambda form, authorization: answer) as where, pytest.raises(ClientError, match=line) as refused:
        of(where)
    assert "hush" not in str(refused.value)


def test_unreachable_token_endpoint_is_reported() -> None:
    with pytest.raises(ClientError, match="does not answer"):
        of(TokenEndpoint("http://127.0.0.1:1/", "me", Secret("x")))
