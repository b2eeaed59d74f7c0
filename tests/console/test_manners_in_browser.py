"""Accessibility of the console's pages in a headless Chromium: both themes, narrow screens, keyboards and screen readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.schema_registry.registry_client import Registry, RegistryClient
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.console import loaded
from tests.console.axe import violations
from tests.console.conditions import WITHIN_S, text
from tests.console.loaded import commit_offset
from tests.support.raw_client import RawClient
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
    "schemas",
    "subject?name=orders-value",
)


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
def shown(browser: Browser, full: Broker) -> Iterator[Browser]:
    browser.enter(full.ready["console"])
    yield browser
    browser.look(width=WIDTH, height=HEIGHT)
    assert browser.complaints() == []


@pytest.mark.parametrize(("width", "is_dark"), [(WIDE, False), (WIDE, True), (NARROW, False), (NARROW, True)])
def test_console_pages_break_no_serious_accessibility_rule(shown: Browser, width: int, is_dark: bool) -> None:
    shown.look(width=width, is_dark=is_dark)
    try:
        for page in PAGES:
            shown.show(page)
            assert violations(shown) == [], page
            wide = shown.script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{page} is {wide} pixels too wide"
        for page, selector in (
            ("topics", "[data-act=create-topic]"),
            ("topic?name=orders", "[data-act=produce]"),
            ("topics", "#find"),
            ("schemas", "[data-act=register-schema]"),
            ("subject?name=orders-value", "[data-act=delete-subject]"),
            ("subject?name=orders-value", "[data-act=set-compatibility]"),
            ("group?name=group-000", "[data-act=delete-offsets]"),
        ):
            shown.show(page)
            shown.click(selector)
            shown.wait("document.querySelector('dialog[open]')")
            assert violations(shown) == [], selector
            shown.press("ESCAPE")
            shown.wait("!document.querySelector('dialog')")
    except Unavailable as missing:
        pytest.skip(str(missing))


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


MANY_TOPICS, MANY_GROUPS = 10_000, 1_000
BATCH = 500


@pytest.mark.nightly
def test_console_pages_of_a_large_cluster_load_within_a_second(browser: Browser, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data", settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        names = ["orders", *(f"topic-{number:05}" for number in range(1, MANY_TOPICS))]
        for at in range(0, MANY_TOPICS, BATCH):
            topics = [
                CreatableTopic(name=name, num_partitions=3 if name == "orders" else 1, replication_factor=1)
                for name in names[at : at + BATCH]
            ]
            client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
        for number in range(MANY_GROUPS):
            commit_offset(client, f"group-{number:04}", 0)
        browser.enter(broker.ready["console"])
        for page in ("overview", "topics", "topic?name=orders", "groups", "group?name=group-0000"):
            browser.show(page)
            loads = [browser.reload() for _ in range(3)]
            painted_ms, drawn_ms = (min(times) for times in zip(*loads, strict=True))
            assert painted_ms < WITHIN_S * 1_000, page
            assert drawn_ms < WITHIN_S * 1_000, (page, loads)
        browser.press("/")
        browser.wait("document.querySelector('#found a')")
        browser.write("#match", "topic-09999")
        browser.wait("document.querySelector('#found a')?.textContent === 'topic-09999'", timeout_s=5 * WITHIN_S)
        with KafkaClient(broker.bootstrap) as kafka:
            assert len(kafka.topics()) == MANY_TOPICS
