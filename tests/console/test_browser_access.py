"""The console's connection in a headless Chromium: tokens and tabs, other sites, restarted brokers, and events in chunks."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ottla import Broker
from ottla.console.site import PREFIX, Console
from ottla.testing.broker_process import ServedProcess
from tests.console.conditions import WITHIN_S, look_elsewhere, state_is, text
from tests.console.loaded import TIMEOUT_S
from tools.browser import Browser

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def console_broker() -> Iterator[Broker]:
    with Broker(settings={"ottla.console": True}) as broker:
        yield broker


@pytest.fixture
def opened(browser: Browser, console_broker: Broker) -> Iterator[Browser]:
    browser.enter(console_broker.ready["console"])
    yield browser
    assert browser.complaints() == []
    assert console_broker._control().get("/v1/state")["unexpected_errors"] == 0


def test_console_page_requests_a_token_and_removes_it_from_the_url(browser: Browser, console_broker: Broker) -> None:
    console, token = console_broker.ready["console"], console_broker.ready["control"]["token"]
    browser.enter(console)
    assert token not in browser.script("return location.href")
    assert browser.script("return document.cookie + JSON.stringify({ ...localStorage })") == "{}"
    browser.driver.get("about:blank")
    browser.driver.get(console.replace(token, "wrong"))
    browser.wait_for_text("the token is wrong")
    browser.write("#token", "schräg")
    browser.click("form button")
    browser.wait_for_text("the token is wrong")
    browser.write("#token", token)
    browser.click("form button")
    browser.wait("document.body.dataset.draws > 0")
    assert all("401" in line for line in browser.complaints())


def test_console_page_shows_a_paused_and_a_stopped_broker(browser: Browser, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data", settings={"ottla.console": True}) as broker:
        console = broker.ready["console"]
        browser.enter(console)
        broker.pause()
        browser.wait_for_text("the broker is paused")
        assert browser.script("return document.querySelector('#live table') !== null"), "the content of the page stays visible"
        broker.resume()
        browser.wait("document.getElementById('state').className === ''")
        broker.stop()
        browser.wait_for_text("the broker does not answer")
    assert all("Failed to load" in line or "ERR_" in line for line in browser.complaints())


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """Run an HTTP server on a free port, and yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def other_site(page: str) -> Iterator[str]:
    """Serve a page on another origin than the console's, and yield its URL."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(page.encode())

    with serving(answer) as port:
        yield f"http://localhost:{port}/"


def test_other_sites_cannot_use_the_console(browser: Browser, console_broker: Broker) -> None:
    control_api = console_broker.ready["control"]

    def status(path: str, **headers: str) -> int:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{control_api['url']}{path}", headers=headers)) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    token = {"Authorization": f"Bearer {control_api['token']}"}
    assert status("/console/v1/overview") == 401
    assert status("/console/", Host="evil.example") == 403
    assert status("/console/v1/overview", **token, Host="evil.example") == 403
    # A page of another origin cannot show the console in a frame, and the browser does not send its request with a custom header.
    with other_site(f"<iframe src='{control_api['url']}/console/'></iframe>") as url:
        browser.driver.get(url)
        ask = "return fetch(arguments[0], { headers: { Authorization: 'Bearer x' } }).then(() => 'sent', (error) => String(error))"
        assert "Failed to fetch" in browser.script(ask, f"{control_api['url']}/console/v1/overview")
        complaints = "\n".join(browser.complaints())
        assert "frame-ancestors" in complaints
        assert "CORS" in complaints


def test_second_console_tab_gets_the_token_of_the_first(browser: Browser, console_broker: Broker) -> None:
    """The second tab gets the token from the first, and no token is stored outside of the tabs."""
    console = console_broker.ready["console"]
    browser.driver.get(console)
    browser.wait_for_text("live")
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    try:
        browser.driver.get(console.partition("#")[0])
        browser.wait_for_text("live")
        assert browser.script("return localStorage.length") == 0
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(first)


@contextmanager
def served(data_dir: Path, token: str | None, control_api_port: int = 0) -> Iterator[dict[str, Any]]:
    """Run a broker whose control API has this token and port. Without a token it chooses both. Yields its "ready" event."""
    ready: list[dict[str, Any]] = []
    has_answered = threading.Event()

    def has_printed(line: dict[str, Any]) -> None:
        if line.get("event") == "ready":
            ready.append(line)
            has_answered.set()

    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), "--console"]
    command += ["--log-format", "json", "--owner-pid", str(os.getpid())]
    if token is not None:
        command += ["--control-port", str(control_api_port), "--set", f"ottla.control.token={token}"]
    process = ServedProcess(has_printed)
    try:
        process.start(command, has_answered.set)
        assert has_answered.wait(TIMEOUT_S)
        assert ready, process.logs[-20:]
        yield ready[0]
        assert process.stop(TIMEOUT_S) == 0
    finally:
        process.kill(TIMEOUT_S)


def test_console_page_accepts_tokens_with_any_characters(browser: Browser, tmp_path: Path) -> None:
    token = "a+b/c=%&#%41"
    with served(tmp_path / "data", token) as ready:
        console = f"{ready['control']['url']}/console/"
        browser.enter(f"{console}#token={quote(token, safe='')}")
        assert browser.complaints() == []
        browser.driver.get("about:blank")
        browser.driver.get(f"{console}#token=%E4%F6")
        browser.wait_for_text("the token is wrong")
        # A header cannot contain this character, so the page sends no request.
        browser.write("#token", "\u20ac")
        browser.click("form button")
        browser.wait_for_text("the token is wrong")
        browser.write("#token", f"  {token} ")
        browser.click("form button")
        browser.wait("document.body.dataset.draws > 0")
        assert all("401" in line for line in browser.complaints())


READ = """
const [pieces, sizes] = arguments;
const { Live } = await import("/console/control.js");
const streamOf = (all) => new ReadableStream({ pull(to) { all.length ? to.enqueue(all.shift()) : to.close(); } });
const before = window.fetch;
const bytes = new TextEncoder().encode(pieces);
const cut = (at) => Array.from({ length: Math.ceil(bytes.length / at) }, (_, i) => bytes.subarray(i * at, (i + 1) * at));
const read = (size) => new Promise((resolve, reject) => {
  const begunMs = performance.now();
  const values = [];
  window.fetch = async () => new Response(streamOf(cut(size)));
  new Live("any", { values: (data) => values.push(data), refused: (error) => values.push(error.message),
    ended: (error) => error ? reject(error) : resolve({ values, ms: performance.now() - begunMs }) });
});
try {
  const all = [];
  for (const size of sizes) all.push(await read(size));
  return all;
} finally {
  window.fetch = before;
}
"""
"""Reads the events from a stream, once for each chunk size."""


def test_console_page_reads_server_events_split_at_any_character(opened: Browser) -> None:
    events = 'event: values\ndata: {"a": "ä: \\n"}\n\n: unchanged\n\nevent: refused\ndata: {"status": 409, "error": "no"}\n\n'
    for read in opened.script(READ, events, list(range(1, len(events) + 2))):
        assert read["values"] == [{"a": "ä: \n"}, "no"]


@pytest.mark.nightly
def test_console_page_reads_a_large_server_event_in_linear_time(opened: Browser) -> None:
    (read,) = opened.script(READ, f'event: values\ndata: "{"x" * 8_000_000}"\n\n', [2_000])
    assert [len(value) for value in read["values"]] == [8_000_000]
    assert read["ms"] < WITHIN_S * 1_000


@contextmanager
def scripted_control_api(events: bytes, *, stays_open: bool) -> Iterator[tuple[str, list[str]]]:
    """Serve the console, with a control API that sends the same events to each page.

    Yields the console's URL and the list of requested pages.
    """
    asked: list[str] = []
    is_over = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        file = Console().file(handler.path)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream" if file is None else file.kind)
        handler.end_headers()
        if file is not None:
            handler.wfile.write(file.content)
            return
        asked.append(handler.path)
        handler.wfile.write(events)
        if stays_open:
            is_over.wait(TIMEOUT_S)

    with serving(answer) as port:
        yield f"http://127.0.0.1:{port}{PREFIX}#token=any", asked
        is_over.set()


LONGER_THAN_PAUSES_S = 1.5
"""Time in which a page that lost its connection reconnects three times."""


def test_console_values_that_cannot_be_rendered_do_not_cause_reconnects(browser: Browser) -> None:
    with scripted_control_api(b"event: values\ndata: {}\n\n", stays_open=True) as (url, asked):
        browser.driver.get(url)
        browser.wait_for_text("this page cannot be drawn: ")
        time.sleep(LONGER_THAN_PAUSES_S)
        assert "this page cannot be drawn: " in browser.script("return document.getElementById('state').textContent")
        assert len(asked) == 1
        assert any("TypeError" in line for line in browser.complaints())


def test_failed_console_page_is_requested_once(browser: Browser) -> None:
    """If the page requested again, each request would log another error in the broker."""
    why = "this page failed; see the broker's log"
    refused = json.dumps({"status": 500, "error": why}).encode()
    with scripted_control_api(b"event: refused\ndata: " + refused + b"\n\n", stays_open=False) as (url, asked):
        browser.driver.get(url)
        browser.wait_for_text(why)
        time.sleep(LONGER_THAN_PAUSES_S)
        look_elsewhere(browser)
        time.sleep(LONGER_THAN_PAUSES_S)
        assert browser.script("return document.getElementById('state').textContent") == why
        assert len(asked) == 1
        browser.script("location.hash = 'topics'")
        browser.wait("document.body.dataset.page === 'topics'")
        browser.wait_for_text(why)
        browser.driver.refresh()
        browser.wait_for_text(why)
        assert len(asked) == 3


BACK_WITHIN_S = 60.0
"""Time limit against hanging. A page that lost its broker reconnects at least every 4 s."""


def test_console_page_continues_after_a_broker_reset_and_restore(browser: Browser) -> None:
    with Broker(settings={"ottla.console": True}) as broker:
        broker.create_topic("before")
        snapshot = broker.snapshot()
        browser.enter(broker.ready["console"])
        browser.show("topics")
        browser.wait_for_text("before")
        broker.reset()
        browser.wait(f"!{text('before')} && {text('none')} && {state_is('live')}", timeout_s=BACK_WITHIN_S)
        broker.restore(snapshot)
        browser.wait(f"{text('before')} && {state_is('live')}", timeout_s=BACK_WITHIN_S)
        broker.create_topic("after")
        browser.wait_for_text("after")
        browser.show("topic?name=before")
        broker.reset()
        browser.wait("document.querySelector('#live .note') && !document.querySelector('#live table')", timeout_s=BACK_WITHIN_S)
        broker.restore(snapshot)
        browser.wait(f"document.querySelector('#live table') && {state_is('live')}", timeout_s=BACK_WITHIN_S)
        assert browser.complaints() == []
        assert broker._control().get("/v1/state")["unexpected_errors"] == 0


def test_console_page_continues_after_a_broker_restart_with_the_same_token(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "data", "first") as ready:
        port = int(ready["control"]["url"].rpartition(":")[2])
        browser.enter(ready["console"])
    browser.wait(state_is("the broker does not answer"))
    with served(tmp_path / "data", "first", port) as ready:
        # The Kafka listener has another port after the restart.
        address = next(iter(ready["listening"].values()))
        browser.wait(f"{text(address)} && {state_is('live')}", timeout_s=BACK_WITHIN_S)
    with served(tmp_path / "data", "second", port):
        browser.wait(state_is("the token is wrong"), timeout_s=BACK_WITHIN_S)
        browser.write("#token", "second")
        browser.click("form button")
        browser.wait(state_is("live"))


def test_console_page_without_configured_token_and_port_continues_after_a_broker_restart(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "data", None) as first:
        browser.enter(first["console"])
    browser.wait(state_is("the broker does not answer"))
    with served(tmp_path / "data", None) as second:
        assert second["console"] == first["console"]
        browser.wait(state_is("live"), timeout_s=BACK_WITHIN_S)
        with served(tmp_path / "other", None) as other:
            assert other["control"] != second["control"]
    # Before the next start, another process may take the port.
    port = int(first["control"]["url"].rpartition(":")[2])
    with ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler), served(tmp_path / "data", None) as third:
        assert third["control"]["url"] != first["control"]["url"]
        assert third["control"]["token"] == first["control"]["token"]
