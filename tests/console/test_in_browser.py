"""Each page in a headless Chromium: painted within a second, changed within a second, and safe whatever clients name things."""

from __future__ import annotations

import itertools
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
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.console.site import PREFIX, all_files
from ottla.testing.broker_process import ServedProcess
from tests.console import loaded
from tests.console.loaded import GROUPS, TIMEOUT_S, commit_offset, producer, write
from tests.support.raw_client import RawClient, create
from tools.browser import Browser, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

WITHIN_S = 1.0
ATTEMPTS = 3
"""The best of so many counts: other work on the machine can only slow a page down."""
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    try:
        with Browser() as browser:
            yield browser
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """Without the page of an earlier test, which would complain that its broker is gone."""
    chromium.driver.get("about:blank")
    chromium.complaints()
    return chromium


class Loaded:
    """The broker with its open transactions, and those who change what it holds."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.opened = loaded.load(broker)
        self.client = RawClient(broker.bootstrap)
        self.plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.completed = 1
        """How many transactions of the lively one are complete."""
        self.lively = producer(broker, "lively")
        write(self.lively, b"first", partition=9)
        self.lively.commit_transaction(TIMEOUT_S)

    def unexpected_errors(self) -> int:
        errors: int = self.broker._control().get("/v1/state")["unexpected_errors"]
        return errors


@pytest.fixture(scope="module")
def full() -> Iterator[Loaded]:
    with Broker(settings={"ottla.console": True}) as broker:
        yield Loaded(broker)


def text(value: str) -> str:
    return f"document.body.innerText.includes({json.dumps(value)})"


def new_transaction(full: Loaded) -> str:
    """Listed before all others that are open."""
    name = f"a-new-one-{next(numbers)}"
    full.opened.append(producer(full.broker, name))
    write(full.opened[-1], b"open", partition=8)
    return text(name)


def new_topic(full: Loaded) -> str:
    name = f"a-topic-{next(numbers)}"
    create(full.client, name)
    return text(name)


def new_record(full: Loaded) -> str:
    value = f"seen {next(numbers)}"
    full.plain.produce("orders", value.encode(), partition=7)
    assert full.plain.flush(TIMEOUT_S) == 0
    return text(value)


def new_end(full: Loaded) -> str:
    offsets: list[int] = []
    full.plain.produce("orders", b"x", partition=99, on_delivery=lambda error, message: offsets.append(message.offset()))
    assert full.plain.flush(TIMEOUT_S) == 0
    return f"document.querySelector('tbody tr:last-child').innerText.includes('\\t{offsets[0] + 1}\\t')"


def new_group(full: Loaded) -> str:
    name = f"a-group-{next(numbers)}"
    commit_offset(full.client, name, 1)
    return text(name)


def new_offset(full: Loaded) -> str:
    offset = 2 + next(numbers) % 15
    commit_offset(full.client, "group-000", offset)
    return f"[...document.querySelectorAll('tbody tr')].some((row) => row.cells[1]?.innerText === '{offset}')"


def new_events(full: Loaded) -> str:
    write(full.lively, b"again", partition=9)
    full.lively.commit_transaction(TIMEOUT_S)
    full.completed += 1
    return f"document.querySelectorAll('#sequence .complete').length === {full.completed}"


def new_fault(full: Loaded) -> str:
    name = f"client-{next(numbers)}"
    full.broker.faults.add(api="Produce", client_id=name, delay_ms=1)
    return text(name)


class Page(NamedTuple):
    shown: str
    """``{open}`` stands for how many transactions are open."""
    change: Callable[[Loaded], str]
    """Changes what the page shows, and returns the condition that is true once it shows the change."""


PAGES = {
    "overview": Page("{open} Ongoing", new_transaction),
    "topics": Page("orders", new_topic),
    "topic?name=orders": Page("an open transaction begins", new_end),
    "messages?topic=orders&partition=7": Page("record 7", new_record),
    "groups": Page("group-000", new_group),
    "group?name=group-000": Page("no members: nobody reads for it", new_offset),
    "transactions": Page("open-00", new_transaction),
    "transaction?id=lively": Page("committed, every marker is written", new_events),
    "steering": Page("Faults and the clock", new_fault),
}


@pytest.fixture
def shown(browser: Browser, full: Loaded) -> Iterator[Browser]:
    browser.enter(full.broker.ready["console"])
    yield browser
    assert browser.complaints() == []
    assert full.unexpected_errors() == 0


@pytest.mark.parametrize("fragment", PAGES)
def test_a_page_is_there_within_a_second(shown: Browser, full: Loaded, fragment: str) -> None:
    shown.show(fragment)
    assert PAGES[fragment].shown.format(open=len(full.opened)) in shown.script("return document.body.innerText")
    loads = [shown.reload() for _ in range(ATTEMPTS)]
    painted_ms, drawn_ms = (min(times) for times in zip(*loads, strict=True))
    assert painted_ms < WITHIN_S * 1_000
    assert drawn_ms < WITHIN_S * 1_000, loads


@pytest.mark.parametrize("fragment", PAGES)
def test_a_change_is_there_within_a_second(shown: Browser, full: Loaded, fragment: str) -> None:
    shown.show(fragment)
    waited_s = []
    for _ in range(ATTEMPTS):
        condition = PAGES[fragment].change(full)
        waited_s.append(shown.wait(condition))
    assert min(waited_s) < WITHIN_S, waited_s


def test_lists_are_long(shown: Browser) -> None:
    shown.show("groups")
    shown.wait_for_text("1 to 100 of")
    shown.click(".pager a")
    shown.wait_for_text("101 to 200 of")
    shown.write("#search", f"group-{GROUPS - 1}")
    shown.click("form button")
    shown.wait_for_text("1 to 1 of 1")


def test_records_are_read_as_each_isolation_level_sees_them(shown: Browser) -> None:
    shown.show("messages?topic=orders&partition=0&isolation=committed")
    shown.wait_for_text("COMMIT marker")
    assert "ABORT marker" not in shown.script("return document.body.innerText")
    shown.script("const s = document.getElementById('isolation'); s.value = 'aborted'; s.dispatchEvent(new Event('change'))")
    shown.wait_for_text("ABORT marker")
    assert "COMMIT marker" not in shown.script("return document.body.innerText")


def test_faults_are_added_and_removed(shown: Browser, full: Loaded) -> None:
    full.broker.faults.clear()
    shown.show("steering")
    shown.write("#fault", "api: EndTx\ndrop_answer: true")
    shown.click("#add button")
    shown.wait_for_text("is it EndTxn")
    shown.write("#fault", "api: EndTxn\nclient_id: <b>nobody</b>\ndrop_answer: true")
    shown.click("#add button")
    shown.wait_for_text("client_id: <b>nobody</b>")
    assert len(full.broker.faults.all()) == 1
    shown.click("#live button")
    shown.wait("document.querySelectorAll('#live button').length === 0")
    assert full.broker.faults.all() == []
    shown.click("#advance button")
    shown.wait_for_text("goes by the machine's clock, which nobody moves; start it with --clock manual")
    # The browser itself notes what was refused.
    assert len([line for line in shown.complaints() if "status of 4" in line]) == 2


def look_elsewhere(browser: Browser) -> None:
    for hidden in ("true", "false"):
        browser.script(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
        browser.script("document.dispatchEvent(new Event('visibilitychange'))")


def test_what_is_typed_outlasts_a_look_elsewhere(shown: Browser) -> None:
    """Somebody goes to another tab to copy a name, and comes back."""
    shown.show("steering")
    shown.write("#fault", "api: EndTxn")
    before = int(shown.script("return Number(document.body.dataset.draws)"))
    look_elsewhere(shown)
    assert shown.script("return document.getElementById('fault').value") == "api: EndTxn"
    shown.wait(f"document.body.dataset.draws > {before}")


HOSTILE = (
    "<script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 1'>",
    '"><svg onload=window.harmed=1>',
    "javascript:window.harmed=1",
    "line\nbreak\r\ttab",
    "\u202eright to left\u202c",
    "x" * 3_000,
    "${window.harmed = 1}",
    "a&b=c#d?e/../f%00%2e",
)


@pytest.mark.smoke
def test_names_harm_nobody(browser: Browser) -> None:
    with Broker(settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders", 3)
        for name in HOSTILE:
            made = Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "transactional.id": name,
                    "client.id": name.replace("\n", " "),
                    "log_level": 0,
                }
            )
            made.init_transactions(TIMEOUT_S)
            made.begin_transaction()
            made.produce("orders", name.encode(), key=name.encode(), headers=[(name, name.encode())], partition=0)
            made.flush(TIMEOUT_S)
            made.commit_transaction(TIMEOUT_S)
            commit_offset(client, name, 1)
        browser.enter(broker.ready["console"])
        pages = ["overview", "messages?topic=orders", "groups", "transactions"]
        pages += [f"{page}={quote(name, safe='')}" for name in HOSTILE for page in ("group?name", "transaction?id", "topic?name")]
        for page in pages:
            browser.script("location.hash = arguments[0]", page)
            browser.wait("document.body.dataset.draws > 0 || document.querySelector('#live .note')")
            assert browser.script("return window.harmed") is None, page
            assert browser.script("return document.querySelectorAll('main script, main img, main iframe').length") == 0, page
            wide = browser.script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{page} is {wide} pixels too wide"
        browser.show("groups")
        browser.wait_for_text(HOSTILE[0])
        assert browser.complaints() == []
        assert broker._control().get("/v1/state")["unexpected_errors"] == 0


def test_the_token_is_asked_for_and_leaves_the_address(browser: Browser, full: Loaded) -> None:
    console, token = full.broker.ready["console"], full.broker.ready["control"]["token"]
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


def test_a_broker_that_goes_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data", settings={"ottla.console": True}) as broker:
        console = broker.ready["console"]
        browser.enter(console)
        broker.pause()
        browser.wait_for_text("the broker is paused")
        assert browser.script("return document.querySelector('#live table') !== null"), "what was on the screen stays there"
        broker.resume()
        browser.wait("document.getElementById('state').className === ''")
        broker.stop()
        browser.wait_for_text("the broker does not answer")
    assert all("Failed to load" in line or "ERR_" in line for line in browser.complaints())


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """An HTTP server on a free port, which it gives."""

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
    """The URL of a page on another origin."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(page.encode())

    with serving(answer) as port:
        yield f"http://localhost:{port}/"


def test_other_sites_cannot_use_it(browser: Browser, full: Loaded) -> None:
    control_api = full.broker.ready["control"]

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
    # A page of another origin: a frame shows nothing, and a request with a header of its own is not sent.
    with other_site(f"<iframe src='{control_api['url']}/console/'></iframe>") as url:
        browser.driver.get(url)
        ask = "return fetch(arguments[0], { headers: { Authorization: 'Bearer x' } }).then(() => 'sent', (error) => String(error))"
        assert "Failed to fetch" in browser.script(ask, f"{control_api['url']}/console/v1/overview")
        complaints = "\n".join(browser.complaints())
        assert "frame-ancestors" in complaints
        assert "CORS" in complaints


HOSTILE_TIMES_MS = (-(10**17), -(10**11), 10**17)
"""A client's records may say that they are of the year -3166809; a browser's dates reach 273,790 years and no further."""


def test_every_time_is_drawn(browser: Browser) -> None:
    with Broker(settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders", message_timestamp_after_max_ms=str(2**63 - 1))
        # The times of a partition are searched for the transaction's begin, so that the first one must be later than that.
        times_ms = (None, *HOSTILE_TIMES_MS)
        made = producer(broker, "old-and-new")
        for time_ms in times_ms:
            made.begin_transaction()
            given = {} if time_ms is None else {"timestamp": time_ms}
            made.produce("orders", b"of any time", **given)
            made.commit_transaction(TIMEOUT_S)
        browser.enter(broker.ready["console"])
        browser.show("messages?topic=orders")
        for shown in ("-100000000000000000", "1966-10-31T14:13:20.000Z", "100000000000000000"):
            browser.wait_for_text(shown)
        browser.show("transaction?id=old-and-new")
        browser.wait(f"document.querySelectorAll('#sequence .data').length === {len(times_ms)}")
        titles = browser.script("return [...document.querySelectorAll('#sequence .data title')].map((title) => title.textContent)")
        assert titles[0].startswith("-100000000000000000 1 record written")
        assert browser.complaints() == []


def test_a_second_tab_has_the_token_of_the_first(browser: Browser, full: Loaded) -> None:
    """It is asked for in neither, and stored nowhere beyond the tabs."""
    console = full.broker.ready["console"]
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
def served(data_dir: Path, token: str, control_api_port: int = 0) -> Iterator[dict[str, Any]]:
    """A broker whose control API has this token and port, which those of a handle choose themselves. Gives its ready line."""
    ready: list[dict[str, Any]] = []
    has_answered = threading.Event()

    def has_printed(line: dict[str, Any]) -> None:
        if line.get("event") == "ready":
            ready.append(line)
            has_answered.set()

    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), "--console"]
    command += ["--control-port", str(control_api_port), "--set", f"ottla.control.token={token}", "--log-format", "json"]
    command += ["--owner-pid", str(os.getpid())]
    process = ServedProcess(has_printed)
    try:
        process.start(command, has_answered)
        assert has_answered.wait(TIMEOUT_S)
        assert ready, process.logs[-20:]
        yield ready[0]
        assert process.stop(TIMEOUT_S) == 0
    finally:
        process.kill(TIMEOUT_S)


def test_a_token_may_have_any_characters(browser: Browser, tmp_path: Path) -> None:
    token = "a+b/c=%&#%41"
    with served(tmp_path / "data", token) as ready:
        console = f"{ready['control']['url']}/console/"
        browser.enter(f"{console}#token={quote(token, safe='')}")
        assert browser.complaints() == []
        browser.driver.get("about:blank")
        browser.driver.get(f"{console}#token=%E4%F6")
        browser.wait_for_text("the token is wrong")
        # No header can hold this one, so that nothing is asked.
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
"""Reads events that come in pieces of each of some sizes."""


def test_events_may_come_in_any_pieces(shown: Browser) -> None:
    events = 'event: values\ndata: {"a": "ä: \\n"}\n\n: unchanged\n\nevent: refused\ndata: {"status": 409, "error": "no"}\n\n'
    for read in shown.script(READ, events, list(range(1, len(events) + 2))):
        assert read["values"] == [{"a": "ä: \n"}, "no"]


def test_a_large_event_takes_no_longer_than_its_length(shown: Browser) -> None:
    (read,) = shown.script(READ, f'event: values\ndata: "{"x" * 8_000_000}"\n\n', [2_000])
    assert [len(value) for value in read["values"]] == [8_000_000]
    assert read["ms"] < WITHIN_S * 1_000


@contextmanager
def scripted_control_api(events: bytes, *, stays_open: bool) -> Iterator[tuple[str, list[str]]]:
    """The console from a control API that sends the same events to each page. Gives its address, and the pages that were asked
    for."""
    asked: list[str] = []
    is_over = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        file = all_files().get(handler.path.removeprefix(PREFIX) or "index.html")
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
"""In this time a page that has lost its connection asks three times."""


def test_values_that_cannot_be_drawn_are_no_lost_connection(browser: Browser) -> None:
    with scripted_control_api(b"event: values\ndata: {}\n\n", stays_open=True) as (url, asked):
        browser.driver.get(url)
        browser.wait_for_text("this page cannot be drawn: ")
        time.sleep(LONGER_THAN_PAUSES_S)
        assert "this page cannot be drawn: " in browser.script("return document.getElementById('state').textContent")
        assert len(asked) == 1
        assert any("TypeError" in line for line in browser.complaints())


def test_a_page_that_has_failed_is_asked_for_once(browser: Browser) -> None:
    """Each time would be an error more in the broker's log."""
    why = "this page has failed; the broker's log says why"
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


def state_is(said: str) -> str:
    return f"document.getElementById('state').textContent === {json.dumps(said)}"


def press(browser: Browser, selector: str, button: int = 0) -> None:
    """Press a button of the mouse. Where a menu opens, the page does not learn that the button is let go."""
    down = "new PointerEvent('pointerdown', { bubbles: true, button: arguments[1] })"
    browser.script(f"document.querySelector(arguments[0]).dispatchEvent({down})", selector, button)


@pytest.mark.parametrize(("selector", "button"), [("#live h1", 2), ("#nav", 0), ("#search", 0)])
def test_what_is_pressed_elsewhere_holds_nothing(shown: Browser, full: Loaded, selector: str, button: int) -> None:
    shown.show("groups")
    press(shown, selector, button)
    shown.wait(new_group(full))


def test_what_is_pressed_is_held_until_it_is_let_go(shown: Browser, full: Loaded) -> None:
    shown.show("groups")
    shown.wait(state_is("live"))
    press(shown, "#live h1")
    condition = new_group(full)
    shown.wait(state_is("held while the pointer is pressed"))
    assert not shown.script(f"return {condition}")
    shown.script("document.dispatchEvent(new PointerEvent('pointerup'))")
    shown.wait(f"{condition} && {state_is('live')}")
    press(shown, "#live h1")
    condition = new_group(full)
    shown.wait(state_is("held while the pointer is pressed"))
    shown.script("window.dispatchEvent(new Event('blur'))")
    shown.wait(f"{condition} && {state_is('live')}")
    press(shown, "#live h1")
    shown.show("topics")
    shown.wait(new_topic(full))


def test_marked_text_is_held_until_the_mark_is_gone(shown: Browser, full: Loaded) -> None:
    shown.show("groups")
    shown.script("document.getSelection().selectAllChildren(document.querySelector('#live h1'))")
    condition = new_group(full)
    shown.wait(state_is("held while text is marked"))
    assert not shown.script(f"return {condition}")
    assert shown.script("return document.getSelection().toString()") == "Groups"
    # What the broker changes no more is drawn, too.
    shown.script("document.getSelection().removeAllRanges()")
    shown.wait(f"{condition} && {state_is('live')}")


BACK_WITHIN_S = 5.0
"""A page that has lost its broker asks each 4 s at least."""


def test_a_page_outlasts_a_reset_and_a_restore(browser: Browser) -> None:
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


def test_a_page_outlasts_a_restart_if_the_token_does(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "data", "first") as ready:
        port = int(ready["control"]["url"].rpartition(":")[2])
        browser.enter(ready["console"])
    browser.wait(state_is("the broker does not answer"))
    with served(tmp_path / "data", "first", port) as ready:
        # Its listener has another port now.
        address = next(iter(ready["listening"].values()))
        browser.wait(f"{text(address)} && {state_is('live')}", timeout_s=BACK_WITHIN_S)
    with served(tmp_path / "data", "second", port):
        browser.wait(state_is("the token is wrong"), timeout_s=BACK_WITHIN_S)
        browser.write("#token", "second")
        browser.click("form button")
        browser.wait(state_is("live"))
