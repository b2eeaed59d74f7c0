"""The console's pages in a headless Chromium: rendered within a second, updated within a second, whatever names clients use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.admin.transactions import abort
from tests.console import loaded
from tests.console.conditions import WITHIN_S, look_elsewhere, state_is, text
from tests.console.loaded import GROUPS, TIMEOUT_S, commit_offset, producer, write
from tests.support.raw_client import RawClient, create
from tests.support.waiting import wait_until
from tools.browser import Browser

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

ATTEMPTS = 3
"""Number of measurements, of which the fastest counts: other work on the machine can only slow a page down."""


numbers = itertools.count(1)


class Loaded:
    """A broker with open transactions, and the clients that change its data."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.opened = loaded.load(broker)
        self.client = RawClient(broker.bootstrap)
        self.plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.completed = 1
        """Number of completed transactions of the active producer."""
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


def new_transaction(full: Loaded) -> str:
    """Begin a transaction that the page lists before all other open transactions."""
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
    """Text that the page contains. ``{open}`` is replaced by the number of open transactions."""
    change: Callable[[Loaded], str]
    """Changes the page's data, and returns a JavaScript condition that is true when the page shows the change."""


PAGES = {
    "overview": Page("{open} Ongoing", new_transaction),
    "topics": Page("orders", new_topic),
    "topic?name=orders": Page("an open transaction begins", new_end),
    "messages?topic=orders&partition=7": Page("record 7", new_record),
    "groups": Page("group-000", new_group),
    "group?name=group-000": Page("no members, so no records are read", new_offset),
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
def test_console_page_in_the_browser_shows_each_change(shown: Browser, full: Loaded, fragment: str) -> None:
    shown.show(fragment)
    assert PAGES[fragment].shown.format(open=len(full.opened)) in shown.script("return document.body.innerText")
    shown.wait(PAGES[fragment].change(full))


@pytest.mark.nightly
@pytest.mark.parametrize("fragment", PAGES)
def test_console_page_in_the_browser_loads_within_a_second(shown: Browser, full: Loaded, fragment: str) -> None:
    shown.show(fragment)
    loads = [shown.reload() for _ in range(ATTEMPTS)]
    painted_ms, drawn_ms = (min(times) for times in zip(*loads, strict=True))
    assert painted_ms < WITHIN_S * 1_000
    assert drawn_ms < WITHIN_S * 1_000, loads


@pytest.mark.nightly
@pytest.mark.parametrize("fragment", PAGES)
def test_console_page_in_the_browser_shows_a_change_within_a_second(shown: Browser, full: Loaded, fragment: str) -> None:
    shown.show(fragment)
    waited_s = []
    for _ in range(ATTEMPTS):
        condition = PAGES[fragment].change(full)
        waited_s.append(shown.wait(condition))
    assert min(waited_s) < WITHIN_S, waited_s


def test_long_lists_are_paged_and_searched_in_the_web_console(shown: Browser) -> None:
    shown.show("groups")
    shown.wait_for_text("1 to 100 of")
    shown.click(".pager a")
    shown.wait_for_text("101 to 200 of")
    shown.write("#search", f"group-{GROUPS - 1}")
    shown.click("form button")
    shown.wait_for_text("1 to 1 of 1")


def test_records_are_shown_by_isolation_level_in_the_web_console(shown: Browser) -> None:
    shown.show("messages?topic=orders&partition=0&isolation=committed")
    shown.wait_for_text("COMMIT marker")
    assert "ABORT marker" not in shown.script("return document.body.innerText")
    shown.script("const s = document.getElementById('isolation'); s.value = 'aborted'; s.dispatchEvent(new Event('change'))")
    shown.wait_for_text("ABORT marker")
    assert "COMMIT marker" not in shown.script("return document.body.innerText")


def test_outcome_of_the_transaction_of_each_record_is_shown_in_the_web_console(shown: Browser) -> None:
    shown.show("topic?name=orders")
    shown.click("a[href^='#messages']")
    shown.wait_for_text("in a committed transaction")
    assert "in an aborted transaction" not in shown.script("return document.body.innerText")
    shown.script("const s = document.getElementById('isolation'); s.value = 'all'; s.dispatchEvent(new Event('change'))")
    for outcome in ("in a committed transaction", "in an aborted transaction"):
        shown.wait_for_text(outcome)
    shown.show("messages?topic=orders&partition=50&isolation=all")
    shown.wait_for_text("in an open transaction")


def test_selected_records_are_downloaded_in_the_web_console(shown: Browser, tmp_path: Path) -> None:
    shown.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    shown.show("messages?topic=orders&isolation=all")
    shown.write("#filter", "value~^record 1[0-9]$")
    shown.press("ENTER")
    shown.wait("document.querySelectorAll('#live tbody tr').length === 10")
    for name, header in (("jsonl", 0), ("csv", 1)):
        shown.click(f"#download-{name}")
        shown.wait("document.getElementById('downloaded').textContent === '10 records'")
        file = tmp_path / f"orders.{name}"
        wait_until(file.exists)
        lines = file.read_text(encoding="utf-8-sig").splitlines()[header:]
        assert len(lines) == 10
        assert all("record 1" in line for line in lines)
        assert (
            shown.script("return [...document.querySelectorAll('.downloads button')].filter((one) => one.offsetParent).length") == 2
        )


def test_faults_are_added_and_removed_in_the_web_console(shown: Browser, full: Loaded) -> None:
    full.broker.faults.clear()
    shown.show("steering")
    shown.write("#fault", "api: EndTx\ndrop_answer: true")
    shown.click("#add button")
    shown.wait_for_text("did you mean EndTxn")
    shown.write("#fault", "api: EndTxn\nclient_id: <b>nobody</b>\ndrop_answer: true")
    shown.click("#add button")
    shown.wait_for_text("client_id: <b>nobody</b>")
    assert len(full.broker.faults.all()) == 1
    shown.click("#live button")
    shown.wait("document.querySelectorAll('#live button').length === 0")
    assert full.broker.faults.all() == []
    shown.click("#advance button")
    shown.wait_for_text("the broker uses the machine's clock, which cannot be advanced; start it with --clock manual")
    # The browser itself logs refused requests.
    assert len([line for line in shown.complaints() if "status of 4" in line]) == 2


def test_text_typed_in_the_console_survives_a_tab_switch(shown: Browser) -> None:
    """The user switches to another tab, for example to copy a name, and then back."""
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
def test_hostile_names_are_rendered_as_text_in_the_web_console(browser: Browser) -> None:
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


HOSTILE_TIMES_MS = (-(10**17), -(10**11), 10**17)
"""A client may write timestamps of the year -3166809, while JavaScript dates end 273,790 years after 1970."""


def test_extreme_record_timestamps_are_rendered_in_the_web_console(browser: Browser) -> None:
    with Broker(settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders", message_timestamp_after_max_ms=str(2**63 - 1))
        # The first timestamp is later than the transaction's begin, because the page searches for the begin by timestamp.
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


def test_records_of_a_transaction_come_from_its_producer_after_another_client_has_aborted_it(browser: Browser) -> None:
    with Broker(settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders")
        made = producer(broker, "checkout")
        made.begin_transaction()
        made.produce("orders", b"of the producer")
        made.flush(TIMEOUT_S)
        with KafkaClient(broker.bootstrap) as other:
            abort(other.brokers, "checkout")
        browser.enter(broker.ready["console"])
        browser.show("transaction?id=checkout")
        browser.wait("document.querySelectorAll('#sequence .marker').length === 1")
        arrows = "#sequence .request .arrow, #sequence .data .arrow"
        starts = browser.script(f"return [...document.querySelectorAll('{arrows}')].map((line) => line.getAttribute('x1'))")
        assert starts[0] == starts[1] != starts[2], starts


def test_timeline_shows_the_time_between_events_as_a_duration(browser: Browser) -> None:
    with Broker(clock="manual", settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders")
        made = producer(broker, "checkout")
        for before, within in (("1500ms", "538103ms"), ("4ms", "3ms")):
            broker.clock.advance(before)
            made.begin_transaction()
            made.produce("orders", b"late", timestamp=broker.clock.now_ms)
            made.flush(TIMEOUT_S)
            broker.clock.advance(within)
            made.abort_transaction(TIMEOUT_S)
        browser.enter(broker.ready["console"])
        browser.show("transaction?id=checkout")
        browser.wait("document.querySelectorAll('#sequence .complete').length === 2")
        times = browser.script("return [...document.querySelectorAll('#sequence .time')].map((one) => one.textContent)")
        assert list(dict.fromkeys(times)) == ["+0 ms", "+1.500 s", "+8 min 59.603 s", "+8 min 59.607 s", "+8 min 59.610 s"]


def press(browser: Browser, selector: str, button: int = 0) -> None:
    """Press a mouse button without releasing it. If a context menu opens, the page never receives the release."""
    down = "new PointerEvent('pointerdown', { bubbles: true, button: arguments[1] })"
    browser.script(f"document.querySelector(arguments[0]).dispatchEvent({down})", selector, button)


@pytest.mark.parametrize(("selector", "button"), [("#live h1", 2), ("#nav", 0), ("#search", 0)])
def test_console_updates_are_not_paused_by_other_mouse_buttons_or_elements(
    shown: Browser, full: Loaded, selector: str, button: int
) -> None:
    shown.show("groups")
    press(shown, selector, button)
    shown.wait(new_group(full))


def test_pressed_mouse_button_pauses_console_updates_until_released(shown: Browser, full: Loaded) -> None:
    shown.show("groups")
    shown.wait(state_is("live"))
    press(shown, "#live h1")
    condition = new_group(full)
    shown.wait(state_is("paused while a button is pressed"))
    assert not shown.script(f"return {condition}")
    shown.script("document.dispatchEvent(new PointerEvent('pointerup'))")
    shown.wait(f"{condition} && {state_is('live')}")
    press(shown, "#live h1")
    condition = new_group(full)
    shown.wait(state_is("paused while a button is pressed"))
    shown.script("window.dispatchEvent(new Event('blur'))")
    shown.wait(f"{condition} && {state_is('live')}")
    press(shown, "#live h1")
    shown.show("topics")
    shown.wait(new_topic(full))


def test_selected_text_pauses_console_updates_until_deselected(shown: Browser, full: Loaded) -> None:
    shown.show("groups")
    shown.script("document.getSelection().selectAllChildren(document.querySelector('#live h1'))")
    condition = new_group(full)
    shown.wait(state_is("paused while text is selected"))
    assert not shown.script(f"return {condition}")
    assert shown.script("return document.getSelection().toString()") == "Groups"
    # The page shows the missed change although nothing changes afterwards.
    shown.script("document.getSelection().removeAllRanges()")
    shown.wait(f"{condition} && {state_is('live')}")
