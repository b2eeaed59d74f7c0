"""Accessibility of the console's pages in a headless Chromium: both themes, narrow screens, keyboards and screen readers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.admin.groups import commit
from ottla.client.explain.diagnosis import stable_offsets
from ottla.client.schema_registry.registry_client import Registry, RegistryClient
from ottla.client.security.client_config import Connecting
from ottla.console.elsewhere import console_server
from ottla.control.page_server import PageServer
from tests.console import loaded
from tests.console.axe import violations
from tests.console.conditions import text
from tools.browser import HEIGHT, WIDTH, Browser
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

NARROW, WIDE = 390, 1_280
PAGES = (
    "overview",
    "topics",
    "topic?name=orders",
    "messages?topic=orders&partition=7",
    "groups",
    "group?name=group-000",
    "transactions",
    "transaction?id=open-00",
    "steering",
    "configs?kind=topic&name=orders",
    "configs?kind=broker&name=1",
    "configs?kind=broker&name=",
    "configs?kind=group&name=group-000",
    "schemas",
    "subject?name=orders-value",
)
PAGES_ELSEWHERE = tuple(page for page in PAGES if page.partition("?")[0] not in ("steering", "schemas", "subject"))
"""The pages of ``ottla console`` without a schema registry. ``ottla console`` has no faults and no clock."""
DIALOGS = (
    ("topics", "[data-act=create-topic]"),
    ("topic?name=orders", "[data-act=produce]"),
    ("topic?name=orders", "[data-act=add-partitions]"),
    ("topic?name=orders", "[data-act=delete-records]"),
    ("topic?name=orders", "[data-act=elect-leaders]"),
    ("topic?name=orders", "[data-act=delete-topic]"),
    ("group?name=group-000", "[data-act=reset-group]"),
    ("group?name=group-000", "[data-act=delete-group]"),
    ("transaction?id=open-00", "[data-act=abort-transaction]"),
    ("configs?kind=topic&name=orders", "[aria-label='edit cleanup.policy']"),
    ("configs?kind=broker&name=", "[data-act=set-config]"),
    ("group?name=group-000", "[data-act=delete-offsets]"),
    ("schemas", "[data-act=register-schema]"),
    ("subject?name=orders-value", "[data-act=delete-subject]"),
    ("subject?name=orders-value", "[data-act=set-compatibility]"),
    ("topics", "#find"),
)
"""The page and the button of each dialog."""


def console_of(broker: Broker) -> PageServer:
    server = console_server(broker.bootstrap, Connecting.parse({"bootstrap.servers": broker.bootstrap}, prefix=""))
    server.serve()
    return server


@pytest.fixture(scope="module")
def full() -> Iterator[Broker]:
    with Broker(schema_registry=True, settings={"ottla.console": True}) as broker:
        opened = loaded.load(broker)
        client = RegistryClient(Registry(broker.schema_registry_url))
        fields = [{"name": "a_field_with_a_long_name", "type": "long", "doc": "explanation " * 20}]
        for number in range(150):
            client.register(f"orders-{number:03}-of-a-long-topic-name-value", '"string"')
        client.register("orders-value", json.dumps({"type": "record", "name": "Order", "fields": fields}))
        yield broker
        opened.clear()


@pytest.fixture
def elsewhere(full: Broker) -> Iterator[PageServer]:
    """A console as ``ottla console --bootstrap`` serves it."""
    server = console_of(full)
    yield server
    server.close()


@pytest.fixture
def shown(browser: Browser, full: Broker) -> Iterator[Browser]:
    browser.enter(full.ready["console"])
    yield browser
    browser.look(width=WIDTH, height=HEIGHT)
    assert browser.complaints() == []


LOOKS = pytest.mark.parametrize(("width", "is_dark"), [(WIDE, False), (WIDE, True), (NARROW, False), (NARROW, True)])


def assert_accessible(browser: Browser, what: str) -> None:
    """Check that axe-core finds no serious problem, and that the page is not wider than the screen. Skips without axe-core."""
    try:
        assert violations(browser) == [], what
    except Unavailable as missing:
        pytest.skip(str(missing))
    wide = browser.script("return document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{what} is {wide} pixels too wide"


BREAKS = """
const breaks = [];
for (const name of document.querySelectorAll("[data-config]")) {
  const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
  let before = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (let at = 0; at < node.length; at += 1) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const top = range.getBoundingClientRect().top;
      if (before && before.top < top) breaks.push([name.textContent, before.character]);
      before = { top, character: node.data[at] };
    }
  }
}
return breaks;
"""
"""Returns, for each line break in the name of a config, the name and the character before the break."""


@pytest.mark.parametrize("page", ["configs?kind=topic&name=orders", "configs?kind=broker&name=1"])
def test_config_names_break_after_dots_on_a_narrow_screen(shown: Browser, page: str) -> None:
    shown.look(width=NARROW)
    shown.show(page)
    shown.wait("document.querySelectorAll('[data-config]').length > 10")
    breaks = shown.script(BREAKS)
    assert len(breaks) > 10
    assert [name for name, character in breaks if character != "."] == []


@LOOKS
def test_console_pages_break_no_serious_accessibility_rule(shown: Browser, width: int, is_dark: bool) -> None:
    shown.look(width=width, is_dark=is_dark)
    for page in PAGES:
        shown.show(page)
        assert_accessible(shown, page)


@LOOKS
def test_console_dialogs_break_no_serious_accessibility_rule(shown: Browser, width: int, is_dark: bool) -> None:
    shown.look(width=width, is_dark=is_dark)
    for page, selector in DIALOGS:
        shown.show(page)
        shown.wait(f'document.querySelector("{selector}")')
        shown.click(selector)
        shown.wait("document.querySelector('dialog[open]')")
        assert_accessible(shown, f"{page} {selector}")
        right = "return document.querySelector('dialog').getBoundingClientRect().right"
        assert shown.script(right) <= width, f"{page} {selector}"
        shown.press("ESCAPE")
        shown.wait("!document.querySelector('dialog')")
    # The preview of an incomplete form may be refused.
    assert [line for line in shown.complaints() if "/previews/" not in line] == []


@LOOKS
def test_pages_of_the_console_command_break_no_serious_accessibility_rule(
    browser: Browser, elsewhere: PageServer, width: int, is_dark: bool
) -> None:
    browser.enter(elsewhere.url)
    browser.look(width=width, is_dark=is_dark)
    for page in PAGES_ELSEWHERE:
        browser.show(page)
        assert_accessible(browser, page)
    browser.look(width=WIDTH, height=HEIGHT)


BROKEN_WORDS = """
return [...document.querySelectorAll('#live tbody td')].flatMap((cell) => {
  const words = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (words.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(words.currentNode);
    const text = words.currentNode.textContent;
    const isBroken = !/\\s/.test(text) && text.length < 30 && range.getClientRects().length > 1;
    if (isBroken) broken.push(text);
  }
  return broken;
})
"""
"""Returns the words of the tables' cells that are shown on more than one line."""
WIDEST_CLUSTER_ID = """
const words = document.createTreeWalker(document.querySelector('#live table'), NodeFilter.SHOW_TEXT);
while (words.nextNode().data !== arguments[0]);
words.currentNode.data = 'W'.repeat(arguments[0].length);
"""
"""Replaces the cluster id, a random text, by the id of the same length that needs the most room."""


def test_words_of_tables_are_not_broken_on_a_narrow_screen(shown: Browser, full: Broker) -> None:
    shown.look(width=NARROW)
    for page in ("topics", "transactions", "groups", "overview"):
        shown.show(page)
        assert shown.script(BROKEN_WORDS) == [], page
    with KafkaClient(full.bootstrap) as client:
        cluster_id = client.brokers.metadata([]).cluster_id
    assert cluster_id is not None and len(cluster_id) == 22
    # Both scripts run as one, because the page may draw the true id again at any time.
    assert shown.script(WIDEST_CLUSTER_ID + BROKEN_WORDS, cluster_id) == []


BROKEN_OPTIONS = """
const shown = document.querySelector(arguments[0]);
const tops = [];
const walker = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  for (let at = 0; at < walker.currentNode.length; at += 1) {
    const range = document.createRange();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + 1);
    tops.push(range.getBoundingClientRect().top);
  }
}
const options = [...shown.textContent.matchAll(/--[a-z-]+/g)];
return options.filter(({ 0: name, index }) => tops[index] !== tops[index + name.length - 1]).map(({ 0: name }) => name);
"""
"""Returns the options of commands in an element that are shown on more than one line."""


def test_options_of_shown_commands_are_not_broken_on_a_narrow_screen(shown: Browser, full: Broker) -> None:
    shown.show("topics")
    shown.click("[data-act=create-topic]")
    for field, value in (("topic", "orders-of-a-long-name"), ("partitions", "12"), ("replicas", "1")):
        shown.write(f"#act-{field}", value)
    shown.wait(
        "document.querySelector('#act code').textContent.includes('--replication-factor 1 orders-of-a-long-name --bootstrap')"
    )
    for width in range(300, NARROW, 10):
        shown.look(width=width)
        assert shown.script(BROKEN_OPTIONS, "#act code") == [], width
    shown.press("ESCAPE")
    with KafkaClient(full.bootstrap) as client:
        (held,) = stable_offsets(client.brokers, "orders", [50])
        commit(client.brokers, "waiting", {("orders", 50): held.last_stable_offset})
    shown.show("group?name=waiting")
    shown.wait(text("ottla txn abort --bootstrap"))
    for width in range(300, NARROW, 10):
        shown.look(width=width)
        assert shown.script(BROKEN_OPTIONS, "#why") == [], width


def test_documentation_of_a_config_is_opened_on_a_narrow_screen(shown: Browser) -> None:
    shown.look(width=NARROW)
    shown.show("configs?kind=topic&name=orders")
    height = "return document.querySelector('#live tbody tr').offsetHeight"
    assert shown.script(height) < 150, "the row's documentation is hidden at first"
    shown.script("document.querySelector('#live .doc summary').click()")
    shown.wait("document.querySelector('#live .doc').open")
    assert "compact" in shown.script("return document.querySelector('#live .doc').innerText")
    shown.look(width=WIDE)
    shown.driver.refresh()
    shown.wait("document.querySelector('#live .doc')?.open")
    assert not shown.script("return document.querySelector('#live .doc summary').checkVisibility()")


def test_console_theme_follows_the_system_or_the_choice_of_the_user(shown: Browser) -> None:
    back = "return getComputedStyle(document.body).backgroundColor"
    shown.look(is_dark=False)
    light = shown.script(back)
    shown.look(is_dark=True)
    dark = shown.script(back)
    assert light != dark
    try:
        shown.click("#theme")
        shown.click("#theme")
        assert shown.script("return document.getElementById('theme').textContent") == "theme: light"
        assert shown.script(back) == light
        shown.driver.refresh()
        shown.wait("document.body.dataset.draws > 0")
        assert shown.script(back) == light
    finally:
        shown.script("localStorage.clear()")


def test_late_console_search_results_do_not_move_the_selection(shown: Browser) -> None:
    shown.show("overview")
    shown.press("/")
    shown.wait("document.activeElement.id === 'match'")
    shown.write("#match", "group-1")
    shown.wait("document.querySelector('#found a')?.textContent.startsWith('group-1')")
    shown.press("ARROW_DOWN", "ARROW_DOWN")
    chosen = shown.script("return document.activeElement.textContent")
    shown.script("window.earlier = document.activeElement; document.querySelector('#found form').dispatchEvent(new Event('input'))")
    shown.wait("!window.earlier.isConnected")
    assert shown.script("return document.activeElement.textContent") == chosen
    shown.press("ESCAPE")
    shown.wait("!document.querySelector('dialog')")


def test_console_search_finds_topics_groups_and_transactional_ids(shown: Browser) -> None:
    shown.show("overview")
    for match, page in (("orders", "topic"), ("group-19", "group"), ("OPEN-4", "transaction")):
        shown.press("/")
        shown.wait("document.activeElement.id === 'match'")
        for key in match:
            shown.press(key)
        shown.wait(f"document.querySelector('#found a')?.textContent.toUpperCase().startsWith('{match.upper()}')")
        shown.press("ARROW_DOWN", "ENTER")
        shown.wait(f"document.body.dataset.page === '{page}' && !document.querySelector('dialog')")
    shown.press("/")
    shown.wait("document.activeElement.id === 'match'")
    shown.write("#match", "no such name")
    shown.wait(text("no name contains this text"))
    shown.press("ESCAPE")
    shown.wait("!document.querySelector('dialog')")


def test_slash_in_a_text_field_does_not_open_the_console_search(shown: Browser) -> None:
    shown.show("topics")
    shown.click("#search")
    shown.press("/")
    assert shown.script("return document.getElementById('search').value") == "/"
    assert not shown.script("return document.querySelector('dialog')")


def test_topic_can_be_created_in_the_console_by_keyboard_alone(shown: Browser, full: Broker) -> None:
    shown.show("topics")
    shown.script("document.activeElement.blur()")
    shown.press("TAB")
    assert shown.script("return document.activeElement.className") == "skip"
    shown.press("ENTER")
    assert shown.script("return document.activeElement.tagName") == "MAIN"
    shown.press("TAB", "TAB", "TAB")
    assert shown.script("return document.activeElement.dataset.act") == "create-topic"
    shown.press("ENTER")
    shown.wait("document.activeElement.id === 'act-topic'")
    for key in "by-keys":
        shown.press(key)
    shown.wait("!document.querySelector('#act .acts button:last-child').disabled")
    shown.press("ENTER")
    shown.wait(text("Topic by-keys was created."))
    with KafkaClient(full.bootstrap) as client:
        client.delete_topic("by-keys")
