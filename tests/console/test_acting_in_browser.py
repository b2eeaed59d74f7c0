"""Actions on the console's pages in a headless Chromium: each asks for one confirmation, and shows its effect and the equivalent
command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.client import KafkaClient
from tests.console.conditions import text
from tests.console.loaded import TIMEOUT_S, commit_offset, producer, write
from tests.support.raw_client import RawClient, create
from tests.support.waiting import wait_until
from tools.browser import Browser

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

CONFIRM = "#act .acts button:last-child"


@pytest.fixture(scope="module")
def console_broker() -> Iterator[Broker]:
    with Broker(settings={"ottla.console": True}) as broker:
        yield broker


@pytest.fixture
def opened(browser: Browser, console_broker: Broker) -> Iterator[Browser]:
    console_broker.reset()
    browser.enter(console_broker.ready["console"])
    yield browser
    # The preview of an incomplete form may be refused.
    assert [line for line in browser.complaints() if "/previews/" not in line] == []
    assert console_broker._control().get("/v1/state")["unexpected_errors"] == 0


def topics(broker: Broker) -> list[str]:
    with KafkaClient(broker.bootstrap) as client:
        return [topic.name for topic in client.topics()]


def dialog(browser: Browser, action: str) -> None:
    """Open the dialog of an action by its button."""
    browser.wait(f"document.querySelector('[data-act={action}]')")
    browser.click(f"[data-act={action}]")


def choose(browser: Browser, selector: str, value: str) -> None:
    change = "const s = document.querySelector(arguments[0]); s.value = arguments[1]"
    browser.script(f"{change}; s.dispatchEvent(new Event('input', {{ bubbles: true }}))", selector, value)


def confirm(browser: Browser) -> None:
    """Press the dialog's last button, once the preview is shown."""
    browser.wait(f"!document.querySelector('{CONFIRM}').disabled")
    browser.click(CONFIRM)
    browser.wait("!document.querySelector('dialog')")


def command(browser: Browser) -> str:
    browser.wait(f"!document.querySelector('{CONFIRM}').disabled")
    shown: str = browser.script("return document.querySelector('#act code').textContent")
    return shown.rpartition(" --bootstrap ")[0]


@pytest.mark.smoke
def test_topic_is_created_filled_and_deleted_in_the_web_console(opened: Browser, console_broker: Broker) -> None:
    opened.show("topics")
    dialog(opened, "create-topic")
    assert opened.script(f"return document.querySelector('{CONFIRM}').disabled"), "a topic needs a name"
    opened.write("#act-topic", "orders")
    opened.write("#act-partitions", "2")
    opened.write("#act-configs", "retention.ms=60000\ncleanup.policy=compact")
    assert command(opened) == (
        "ottla topic create --partitions 2 --config retention.ms=60000 --config cleanup.policy=compact orders"
    )
    confirm(opened)
    opened.wait("document.body.dataset.page === 'topic' && document.body.dataset.draws > 0")
    opened.wait_for_text("Topic orders was created.")
    dialog(opened, "produce")
    opened.write("#act-key", "k")
    opened.write("#act-value", "first")
    opened.write("#act-headers", "from=console")
    assert command(opened) == "ottla produce --key k --value first --header from=console orders"
    confirm(opened)
    opened.wait_for_text("The record was written to orders:")
    opened.click("#notice a")
    opened.wait("document.body.dataset.page === 'messages'")
    opened.wait_for_text("first")
    opened.show("topic?name=orders")
    dialog(opened, "delete-topic")
    opened.wait_for_text("2 partitions with up to 1 record (transaction markers count too) will be deleted")
    assert opened.script("return document.activeElement.textContent") == "cancel"
    confirm(opened)
    opened.wait_for_text("Topic orders was deleted.")
    wait_until(lambda: topics(console_broker) == [])


def test_refused_console_action_shows_the_reason_in_its_dialog(opened: Browser) -> None:
    opened.show("topics")
    dialog(opened, "create-topic")
    opened.write("#act-topic", "a/b")
    opened.write("#act-configs", "no equals sign")
    opened.wait_for_text("expected KEY=VALUE: no equals sign")
    opened.write("#act-configs", " ")
    opened.wait(f"!document.querySelector('{CONFIRM}').disabled")
    opened.click(CONFIRM)
    opened.wait_for_text("INVALID_TOPIC_EXCEPTION")
    opened.press("ESCAPE")
    opened.wait("!document.querySelector('dialog')")
    assert opened.script("return document.activeElement.dataset.act") == "create-topic"
    # The browser itself logs refused requests.
    assert all("status of 4" in line for line in opened.complaints())


def test_records_are_written_in_transactions_and_as_tombstones_in_the_web_console(opened: Browser, console_broker: Broker) -> None:
    console_broker.create_topic("orders", 1)
    opened.show("topic?name=orders")
    for outcome, value in (("committed", "kept"), ("aborted", "dropped")):
        dialog(opened, "produce")
        opened.write("#act-value", value)
        choose(opened, "#act-transaction", outcome)
        confirm(opened)
        opened.wait_for_text(f"in a transaction that was {outcome}.")
    dialog(opened, "produce")
    opened.write("#act-key", "gone")
    opened.click("#act-isTombstone")
    assert opened.script("return document.querySelector('#act-value').closest('.field').hidden")
    assert command(opened) == "ottla produce --key gone --null-value orders"
    confirm(opened)
    opened.wait_for_text("at offset 4.")
    assert [(record.key, record.value) for record in console_broker.records("orders")] == [(None, b"kept"), (b"gone", None)]


def test_records_before_an_offset_are_deleted_in_the_web_console(opened: Browser, console_broker: Broker) -> None:
    console_broker.create_topic("orders", 1)
    made = Producer({"bootstrap.servers": console_broker.bootstrap, "log_level": 0})
    for number in range(5):
        made.produce("orders", str(number))
    assert made.flush(TIMEOUT_S) == 0
    opened.show("topic?name=orders")
    dialog(opened, "delete-records")
    opened.wait_for_text("Up to 5 records (transaction markers count too) will be deleted")
    for place, missing in (("time", "give a date and a time after 1970"), ("offset", "give an offset")):
        choose(opened, "#act-place", place)
        opened.wait_for_text(missing)
        assert opened.script(f"return document.querySelector('{CONFIRM}').disabled"), "an empty field selects no records"
        assert "will be deleted" not in opened.script("return document.querySelector('#act').innerText")
    opened.write("#act-offset", "3")
    opened.wait_for_text("Up to 3 records (transaction markers count too) will be deleted; this cannot be undone.")
    confirm(opened)
    opened.wait("document.querySelector('#live tbody tr').cells[2].innerText === '3'")


def test_group_is_reset_after_a_preview_and_deleted_in_the_web_console(opened: Browser, console_broker: Broker) -> None:
    with RawClient(console_broker.bootstrap) as client:
        create(client, "orders", 3)
        commit_offset(client, "billing", 0)
        opened.show("group?name=billing")
        dialog(opened, "reset-group")
        choose(opened, "#act-place", "end")
        opened.write("#act-topics", "orders:1 orders:2")
        opened.wait("document.querySelectorAll('#act .preview tbody tr').length === 2")
        assert command(opened) == "ottla group reset --to end --topic orders:1 --topic orders:2 billing"
        confirm(opened)
        opened.wait_for_text("2 offsets of group billing were set.")
        opened.click("[aria-label='delete the offset of orders:1']")
        opened.wait_for_text("1 committed offset will be deleted")
        assert command(opened) == "ottla group delete-offsets --topic orders:1 billing"
        opened.write("#act-topics", "orders:0 orders:2")
        opened.wait_for_text("2 committed offsets will be deleted")
        confirm(opened)
        opened.wait_for_text("2 committed offsets of group billing were deleted.")
        opened.wait("document.querySelectorAll('[data-act=delete-offsets]').length === 2")
        dialog(opened, "delete-group")
        confirm(opened)
        opened.wait_for_text("Group billing was deleted.")


def test_open_transaction_is_aborted_in_the_web_console(opened: Browser, console_broker: Broker) -> None:
    console_broker.create_topic("orders", 1)
    write(producer(console_broker, "shop"), b"open")
    opened.show("transaction?id=shop")
    dialog(opened, "abort-transaction")
    assert command(opened) == "ottla txn abort shop"
    confirm(opened)
    opened.wait_for_text("The transaction of shop was aborted, and its producer is fenced.")
    opened.wait("!document.querySelector('[data-act=abort-transaction]')")


def test_configs_are_searched_edited_and_unset_in_the_web_console(opened: Browser, console_broker: Broker) -> None:
    console_broker.create_topic("orders", 1)
    opened.show("configs?kind=topic&name=orders")
    opened.write("#match-configs", "cleanup")
    opened.wait("[...document.querySelectorAll('[data-config]')].filter((one) => one.offsetParent).length === 1")
    opened.click("[aria-label='edit cleanup.policy']")
    opened.write("#act-value", "compact")
    assert command(opened) == "ottla config set topic orders cleanup.policy=compact"
    confirm(opened)
    opened.wait("document.querySelector(\"[aria-label='unset cleanup.policy']\")")
    assert opened.script("return document.querySelector('#live tbody tr').cells[2].innerText") == "delete", "the default"
    opened.click("[aria-label='unset cleanup.policy']")
    confirm(opened)
    opened.wait("document.body.dataset.draws > 0 && !document.querySelector(\"[aria-label='unset cleanup.policy']\")")
    opened.show("configs?kind=broker&name=1")
    opened.wait_for_text("set only at the broker's start")


def test_names_from_clients_are_shown_as_text_in_console_dialogs(opened: Browser, console_broker: Broker) -> None:
    name = "<img src=x onerror='window.harmed = 1'>"
    with RawClient(console_broker.bootstrap) as client:
        create(client, "orders", 3)
        commit_offset(client, name, 1)
    opened.show("groups")
    opened.click("#live tbody a")
    dialog(opened, "delete-group")
    opened.wait_for_text(f"Delete group {name}")
    assert command(opened).startswith("ottla group delete '<img")
    assert opened.script("return document.querySelectorAll('img').length") == 0
    opened.press("ESCAPE")


def test_read_only_console_has_no_actions(browser: Browser) -> None:
    with Broker(settings={"ottla.console": True, "ottla.console.read.only": True}) as broker:
        broker.create_topic("orders", 1)
        browser.enter(broker.ready["console"])
        for page in ("topics", "topic?name=orders", "configs?kind=topic&name=orders", "steering"):
            browser.show(page)
            browser.wait(text("read-only"))
            assert browser.script("return document.querySelectorAll('[data-act], #add, #advance').length") == 0
        assert browser.complaints() == []
        token = broker.ready["console"].rpartition("=")[2]
        how = "{ method: 'POST', headers: { Authorization: `Bearer ${arguments[1]}` }, body: '{}' }"
        asked = f"return fetch(arguments[0], {how}).then((answer) => answer.status)"
        assert browser.script(asked, "/v1/reset", token) == 403
        assert browser.script(asked, "/console/actions/create-topic", token) == 403
        assert topics(broker) == ["orders"]
