"""The keys of an identity provider are loaded, refreshed, and loaded again for tokens that name an unknown key."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from structlog.testing import capture_logs

from ottla.broker.config.definitions import ConfigError
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.network import key_sets
from ottla.broker.network.key_sets import KeySource
from ottla.control.clock import ManualClock
from ottla.security.sasl.signed_tokens import KeySetError
from tests.client.security.listener import listening
from tests.security.sasl.test_signed_tokens import EC, RSA, jwk
from tests.support.world import simulated_env

URL = "https://id.example/keys"
REFRESH_MS, RETRY_MS, MAX_RETRY_MS = 3_600_000, 100, 10_000
MINUTE_MS = 60_000


def document(*names: str) -> bytes:
    """Return a key set with a key of each of these ids."""
    keys = [jwk(RSA, "RS256", kid=name) if name != "e" else jwk(EC, "ES256", kid=name) for name in names]
    return json.dumps({"keys": keys}).encode()


class Provider:
    """An identity provider whose response the test sets: a document, or an exception."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.response: bytes | Exception = document("r")
        self.requests = 0
        self.env: Any = simulated_env()
        monkeypatch.setattr(key_sets.ExchangeDeadline, "opener", lambda deadline: SimpleNamespace(open=self._opened))

    def _opened(self, url: str, timeout: float) -> io.BytesIO:
        assert (url, timeout) == (URL, key_sets.TIMEOUT_S)
        self.requests += 1
        if isinstance(self.response, Exception):
            raise self.response
        return io.BytesIO(self.response)

    def source(self, refresh_ms: int = REFRESH_MS) -> KeySource:
        made = KeySource(self.env, Lifecycle(self.env), URL, refresh_ms, RETRY_MS, MAX_RETRY_MS)
        self.env.scheduler.settle()
        return made

    def after(self, ms: int) -> int:
        """Let time pass, and return the number of requests in this time."""
        before = self.requests
        self.env.scheduler.advance(ms)
        return self.requests - before


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    return Provider(monkeypatch)


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


def known(source: KeySource, *names: str) -> list[str]:
    """Return the ids, among these, of the current keys."""
    keys = source.current()
    assert keys is not None
    return [name for name in names if keys.candidates(name)]


def test_keys_are_loaded_at_the_start_and_again_after_the_refresh_interval(provider: Provider) -> None:
    source = provider.source()
    assert (provider.requests, known(source, "r", "n")) == (1, ["r"])
    provider.response = document("n")
    assert provider.after(REFRESH_MS - 1) == 0
    assert provider.after(1) == 1
    # The withdrawn key is gone, although no token has arrived since then.
    assert known(source, "r", "n") == ["n"]
    assert provider.after(REFRESH_MS) == 1


async def test_keys_are_loaded_again_when_a_test_advances_the_manual_clock(provider: Provider) -> None:
    """The refresh interval follows the broker's clock. A failed load is repeated although this clock has stopped."""
    clock = ManualClock(0)
    provider.env.call_by_clock = clock.call_by_clock

    async def after(ms: int) -> int:
        before = provider.requests
        await clock.advance(ms, lambda: False)
        provider.env.scheduler.settle()
        return provider.requests - before

    source = provider.source()
    provider.response = document("n")
    assert provider.after(10 * REFRESH_MS) == 0
    assert await after(REFRESH_MS - 1) == 0
    assert await after(1) == 1
    assert known(source, "r", "n") == ["n"]
    provider.response = URLError("down")
    assert await after(REFRESH_MS) == 1
    assert await after(REFRESH_MS) == 0
    provider.response = document("r")
    assert provider.after(RETRY_MS) == 1
    assert known(source, "r", "n") == ["r"]
    assert await after(REFRESH_MS) == 1


def test_no_keys_are_known_while_the_first_load_runs(provider: Provider) -> None:
    source = KeySource(provider.env, Lifecycle(provider.env), URL, REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    assert source.current() is None
    source.missed("n")
    assert provider.requests == 1
    provider.env.scheduler.settle()
    assert known(source, "r") == ["r"]


def test_token_with_an_unknown_key_causes_a_load_at_once(provider: Provider) -> None:
    source = provider.source()
    provider.response = document("r", "n")
    source.missed("n")
    provider.env.scheduler.settle()
    assert (provider.requests, known(source, "r", "n")) == (2, ["r", "n"])
    # The refresh interval begins again with each load.
    assert provider.after(REFRESH_MS - 1) == 0
    assert provider.after(1) == 1


def test_equal_unknown_keys_cause_one_load_per_minute(provider: Provider) -> None:
    source = provider.source()
    for _ in range(3):
        source.missed("x")
        provider.env.scheduler.settle()
    assert provider.requests == 2
    assert provider.after(MINUTE_MS - 1) == 0
    source.missed("x")
    provider.after(1)
    assert provider.requests == 2
    source.missed("x")
    provider.env.scheduler.settle()
    assert provider.requests == 3


def test_invented_keys_cause_few_loads_per_minute(provider: Provider) -> None:
    source = provider.source()
    for number in range(1_000):
        source.missed(f"x{number}")
        provider.env.scheduler.settle()
    assert provider.requests == 1 + key_sets.MAX_UNKNOWN_KEYS
    provider.after(MINUTE_MS)
    source.missed("n")
    provider.env.scheduler.settle()
    assert provider.requests == 2 + key_sets.MAX_UNKNOWN_KEYS


def test_long_key_id_causes_no_load(provider: Provider) -> None:
    source = provider.source()
    source.missed("x" * 1_001)
    provider.env.scheduler.settle()
    assert provider.requests == 1


FAILURES = [
    (URLError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
    (URLError("no host given"), "no host given"),
    (HTTPError(URL, 503, "Service Unavailable", {}, None), "Service Unavailable"),  # type: ignore[arg-type]
    (TimeoutError("timed out"), "the document did not arrive within 10 s"),
    (URLError(TimeoutError("timed out")), "the document did not arrive within 10 s"),
    (http.client.RemoteDisconnected("closed without response"), "closed without response"),
    (http.client.BadStatusLine("GET /keys?token=hush HTTP/1.1"), "BadStatusLine"),
    (HTTPError(URL, 302, "Redirection to url 'file:///keys?token=hush'", {}, None), "the response has the status 302 (Found)"),  # type: ignore[arg-type]
    (HTTPError(URL, 799, "hush", {}, None), "the response has the status 799 (unknown)"),  # type: ignore[arg-type]
    (b"<html>", "it is not a JSON Web Key Set"),
    (b'{"keys": []}', "it is not a JSON Web Key Set"),
    (b"[" * 100_000, "it is not a JSON Web Key Set"),
    (b" " * (1 << 20) + b"x", f"at most {1 << 20} bytes are allowed"),
]


@pytest.mark.parametrize(("response", "reason"), FAILURES, ids=[reason for _, reason in FAILURES])
def test_failed_load_is_logged_and_keeps_the_old_keys(
    provider: Provider, lines: list[Any], response: bytes | Exception, reason: str
) -> None:
    source = provider.source()
    provider.response = response
    source.missed("n")
    provider.env.scheduler.settle()
    (line,) = lines
    assert (line["event"], line["log_level"], line["url"]) == ("keys_not_loaded", "warning", URL)
    assert reason in line["reason"] and len(line["reason"]) <= 200
    assert "hush" not in str(line)
    assert known(source, "r") == ["r"]


def test_failed_load_is_repeated_at_growing_intervals_and_logged_once(provider: Provider, lines: list[Any]) -> None:
    """A provider may start after the broker. Kafka's broker does not start without the keys."""
    provider.response = URLError("down")
    source = provider.source()
    assert source.current() is None
    for delay_ms in (100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000):
        assert provider.after(delay_ms - 1) == 0
        assert provider.after(1) == 1
    assert len([line for line in lines if "times" not in line]) == 1
    provider.response = document("r")
    provider.after(10_000)
    assert known(source, "r") == ["r"]
    assert provider.after(REFRESH_MS - 1) == 0
    provider.response = URLError("down")
    assert provider.after(1) == 1
    # The interval is short again, and the error is new.
    assert provider.after(100) == 1
    assert len([line for line in lines if "times" not in line]) == 2


def test_changed_file_is_loaded_before_the_next_token_is_verified(tmp_path: Path, lines: list[Any]) -> None:
    file, env = tmp_path / "the keys.json", simulated_env()
    file.write_bytes(document("r", "e"))
    source = KeySource(env, Lifecycle(env), file.as_uri(), REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    assert known(source, "r", "e", "n") == ["r", "e"]
    file.write_bytes(document("n"))
    assert known(source, "r", "e", "n") == ["n"]
    for content in (b"{", None):
        file.unlink() if content is None else file.write_bytes(content)
        assert known(source, "n") == ["n"]
        assert known(source, "n") == ["n"]
    assert [line["event"] for line in lines] == ["keys_not_loaded", "keys_not_loaded"]
    file.write_bytes(document("r"))
    assert known(source, "r", "n") == ["r"]


def test_file_whose_change_is_not_visible_is_loaded_after_the_refresh_interval(tmp_path: Path) -> None:
    file, env = tmp_path / "keys.json", simulated_env()
    file.write_bytes(document("r"))
    source, state = KeySource(env, Lifecycle(env), file.as_uri(), REFRESH_MS, RETRY_MS, MAX_RETRY_MS), file.stat()
    file.write_bytes(document("n"))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert known(source, "r", "n") == ["r"]
    env.scheduler.advance(REFRESH_MS)
    assert known(source, "r", "n") == ["n"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"", "it is not a JSON Web Key Set"), (bytes(1 << 20) + b"x", "bytes are allowed")],
)
def test_broker_does_not_start_without_the_file_of_its_keys(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file, env = tmp_path / "keys.json", simulated_env()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"sasl\.oauthbearer\.jwks\.endpoint\.url: cannot load {file.as_uri()}: .*{reason}"):
        KeySource(env, Lifecycle(env), file.as_uri(), REFRESH_MS, RETRY_MS, MAX_RETRY_MS)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keys.json",
        "/keys.json",
        "ftp://id/keys",
        "data:application/json,{}",
        "http://h:x/",
        "http://me:hush@h:99999/",
        "http://[h/?hush",
    ],
)
def test_url_of_another_scheme_or_without_a_valid_host_is_refused(url: str) -> None:
    env = simulated_env()
    with pytest.raises(
        ConfigError, match="is not a URL that can be loaded; give file:/PATH or https://HOST/PATH, without a user"
    ) as refused:
        KeySource(env, Lifecycle(env), url, REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    assert "hush" not in str(refused.value)


def test_address_of_keys_is_logged_without_user_password_and_query(lines: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, timeout: float) -> None:
        raise URLError("refused")

    monkeypatch.setattr(key_sets.ExchangeDeadline, "opener", lambda deadline: SimpleNamespace(open=refuse))
    env = simulated_env()
    KeySource(env, Lifecycle(env), "https://localhost/keys?token=hush", REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    env.scheduler.settle()
    (line,) = lines
    assert line["url"] == "https://localhost/keys"
    assert "hush" not in str(line)


def test_url_of_keys_with_forbidden_characters_is_logged_without_its_secrets(lines: list[Any]) -> None:
    env = simulated_env()
    KeySource(env, Lifecycle(env), "http://localhost/keys?token=hush hush", REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    env.scheduler.settle()
    assert [line["event"] for line in lines] == ["keys_not_loaded"]
    assert "hush" not in str(lines)


@pytest.mark.parametrize("url", ["http://user:hush@localhost/keys", "https:/keys?token=hush", "http:///keys?token=hush"])
def test_url_of_keys_without_a_host_or_with_a_user_is_refused_without_its_secrets(url: str) -> None:
    env = simulated_env()
    with pytest.raises(ConfigError, match="the value is not a URL that can be loaded") as refused:
        KeySource(env, Lifecycle(env), url, REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    assert "hush" not in str(refused.value)


def test_file_that_changes_during_a_load_keeps_its_new_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, env = tmp_path / "keys.json", simulated_env()
    file.write_bytes(document("r"))
    source = KeySource(env, Lifecycle(env), file.as_uri(), REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    read = key_sets._read
    changed: list[bool] = []

    def change_after_reading(url: str, steady_ms: Any) -> bytes:
        content = read(url, steady_ms)
        if not changed:
            changed.append(True)
            file.write_bytes(document("r", "n"))
            assert known(source, "r", "n") == ["r", "n"]
        return content

    monkeypatch.setattr(key_sets, "_read", change_after_reading)
    env.scheduler.advance(REFRESH_MS)
    assert changed
    assert known(source, "r", "n") == ["r", "n"]


def test_refresh_interval_of_zero_loads_keys_at_most_ten_times_a_second(provider: Provider) -> None:
    source = provider.source(refresh_ms=0)
    assert 0 < provider.after(1_000) <= 10
    assert known(source, "r") == ["r"]


@pytest.mark.wire
@pytest.mark.parametrize("part", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b""])
def test_provider_that_sends_single_bytes_is_given_up_after_the_timeout(part: bytes) -> None:
    """Each byte arrives in time, but the headers or the document never end."""
    now_ms = [0]

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(part)
        for _ in range(20):
            now_ms[0] += 1_000
            connection.sendall(b"x")
        # A client that waits for more bytes fails with another error when the connection is closed.
        connection.settimeout(1)
        while connection.recv(1 << 16):
            pass

    with listening(serve) as (host, port), pytest.raises(KeySetError, match="did not arrive within 10 s"):
        key_sets._read(f"http://{host}:{port}/keys", lambda: now_ms[0])


def test_keys_are_not_loaded_again_after_the_broker_has_stopped(provider: Provider) -> None:
    lifecycle = Lifecycle(provider.env)
    KeySource(provider.env, lifecycle, URL, REFRESH_MS, RETRY_MS, MAX_RETRY_MS)
    provider.env.scheduler.settle()
    assert provider.after(REFRESH_MS) == 1
    lifecycle.is_stopping = True
    assert provider.after(3 * REFRESH_MS) == 0
