"""The pages of messages and of one record in a headless Chromium: fields of the form, the pause, the JSON tree, copied texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import Broker, Record
from tests.console.axe import violations
from tests.console.conditions import state_is
from tools.browser import HEIGHT, WIDTH, Browser
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

NARROW = 390
LARGE = f'{{"id": 12345678901234567890, "price": 1.10, "items": {list(range(40))}}}'
ROWS = "[...document.querySelectorAll('#live tbody tr:not(.control)')]"
PAUSE = "const b = document.getElementById('pause'); return [b.textContent, b.ariaPressed]"
CLIPBOARD = ["clipboardReadWrite", "clipboardSanitizedWrite"]


@pytest.fixture(scope="module")
def orders() -> Iterator[Broker]:
    with Broker(settings={"ottla.console": True}) as broker:
        broker.create_topic("orders", 3)
        broker.produce("orders", [Record(LARGE, key="k-1", headers={"source": "web"}, partition=0)])
        broker.produce("orders", [Record("two", key="k-2", headers={"source": "app"}, partition=1)])
        with broker.transaction("shop") as transaction:
            transaction.produce("orders", "three", key="k-3", partition=2)
        yield broker


@pytest.fixture
def opened(browser: Browser, orders: Broker) -> Iterator[Browser]:
    browser.enter(orders.ready["console"])
    yield browser
    browser.look(width=WIDTH, height=HEIGHT)
    assert browser.complaints() == []


def shown_keys(browser: Browser) -> list[str]:
    keys: list[str] = browser.script(f"return {ROWS}.map((row) => row.cells[3].innerText.split('\\n')[0])")
    return keys


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("key", "k-2", ["k-2"]),
        ("value", "thre", ["k-3"]),
        ("header", "source", ["k-1", "k-2"]),
        ("header", "source=app", ["k-2"]),
        ("partition", "0,2", ["k-1", "k-3"]),
        ("partition", "1-2", ["k-2", "k-3"]),
        ("text", "web", ["k-1"]),
        ("filter", "value$.items[?@ > 38]", ["k-1"]),
    ],
)
def test_field_of_the_message_form_selects_records(opened: Browser, field: str, text: str, expected: list[str]) -> None:
    opened.show("messages?topic=orders&isolation=committed")
    opened.write(f"#{field}", text)
    opened.press("ENTER")
    opened.wait(f"location.hash.includes('{field}=') && {ROWS}.length === arguments[0]", len(expected))
    assert sorted(shown_keys(opened)) == expected
    assert opened.script("return document.getElementById(arguments[0]).value", field) == text


def test_producer_id_in_the_message_form_selects_the_producers_records(opened: Browser) -> None:
    opened.show("messages?topic=orders")
    opened.wait(f"{ROWS}.length >= 3")
    row = f"{ROWS}.find((row) => row.cells[3].innerText.startsWith('k-3'))"
    producer_id = opened.script(f"return {row}.cells[2].innerText.split(' ')[0]")
    assert producer_id.isdigit()
    opened.write("#producer", producer_id)
    opened.press("ENTER")
    opened.wait(f"location.hash.includes('producer=') && {ROWS}.length === 1")
    assert shown_keys(opened) == ["k-3"]


def test_paused_page_of_messages_shows_new_records_when_it_continues(opened: Browser, orders: Broker) -> None:
    orders.create_topic("live", 1)
    orders.produce("live", "first")
    opened.show("messages?topic=live")
    opened.wait(f"{ROWS}.length === 1")
    opened.click("#pause")
    assert opened.script("const b = document.getElementById('pause'); return [b.textContent, b.ariaPressed]") == [
        "continue",
        "true",
    ]
    orders.produce("live", "second")
    # The page has received the record, and says why it does not show it.
    opened.wait(state_is("paused while you look at these records"))
    assert opened.script(f"return {ROWS}.length") == 1
    opened.click("#pause")
    opened.wait(f"{ROWS}.length === 2")
    assert opened.script(PAUSE) == ["pause", "false"]
    orders.produce("live", "third")
    opened.wait(f"{ROWS}.length === 3")


def test_page_of_a_record_shows_digits_and_expands_and_collapses_its_parts(opened: Browser) -> None:
    opened.show("messages?topic=orders&partition=0")
    opened.click("#live tbody tr a")
    opened.wait("document.body.dataset.page === 'record' && document.querySelector('.json')")
    tree = opened.script("return document.querySelector('.json').innerText")
    assert "12345678901234567890" in tree
    assert "1.10" in tree, "a number has the digits that the producer wrote"
    inner = "document.querySelector('.json details details')"
    assert not opened.script(f"return {inner}.open"), "a list of 40 elements is collapsed at first"
    opened.click(".json details details > summary")
    opened.wait(f"{inner}.open && {inner}.childElementCount === 41")
    opened.click(".json > details > summary")
    opened.wait("!document.querySelector('.json > details').open")
    opened.click(".json > details > summary")
    opened.wait(f"{inner}.checkVisibility() && {inner}.open")


def test_chosen_partitions_are_counted_above_their_records(opened: Browser) -> None:
    opened.show("messages?topic=orders&partition=0,2")
    opened.wait_for_text("3 offsets in 2 of 3 partitions")


def test_page_of_a_record_copies_its_link_value_and_command(opened: Browser, orders: Broker) -> None:
    opened.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": CLIPBOARD})
    opened.show("record?topic=orders&partition=1&offset=0")
    command = f"ottla produce --key k-2 --value two --header source=app --partition 1 orders --bootstrap {orders.bootstrap}"
    copied = "return navigator.clipboard.readText()"
    for label, expected in (
        ("copy link", opened.script("return location.href")),
        ("copy value", "two"),
        ("copy as ottla produce", command),
    ):
        opened.click(f"[aria-label='{label}']")
        opened.wait(f"document.querySelector(\"[aria-label='{label}']\").textContent === 'copied'")
        assert opened.script(copied) == expected
    assert "token" not in opened.script("return location.href")


def test_format_chosen_on_the_page_of_a_record_stays_in_its_address(opened: Browser) -> None:
    opened.show("record?topic=orders&partition=1&offset=0")
    choose = "const s = document.getElementById('as_value'); s.value = 'hex'; s.dispatchEvent(new Event('change'))"
    opened.script(choose)
    opened.wait("location.hash.includes('as_value=hex') && document.querySelector('#live .hex')")
    assert opened.script("return document.querySelector('#live .hex').innerText").replace(" ", "") == "74776f"
    opened.driver.refresh()
    opened.wait("document.querySelector('#live .hex')")
    assert opened.script("return document.getElementById('as_value').value") == "hex"


@pytest.mark.parametrize(("width", "is_dark"), [(WIDTH, False), (WIDTH, True), (NARROW, False), (NARROW, True)])
def test_pages_of_a_record_break_no_serious_accessibility_rule(opened: Browser, width: int, is_dark: bool) -> None:
    opened.look(width=width, is_dark=is_dark)
    try:
        for page in ("record?topic=orders&partition=0&offset=0", "record?topic=orders&partition=2&offset=1"):
            opened.show(page)
            assert violations(opened) == [], page
            wide = opened.script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{page} is {wide} pixels too wide"
    except Unavailable as missing:
        pytest.skip(str(missing))
