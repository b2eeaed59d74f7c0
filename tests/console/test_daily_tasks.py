"""The ten daily tasks of docs/console.md in a headless Chromium, with the number of clicks that the page states."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tests.console.conditions import text
from tests.console.loaded import commit_offset, producer, write
from tests.support.raw_client import RawClient, create
from tools.browser import Browser

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

PAGE = Path(__file__).parent.parent.parent / "docs" / "console.md"
CONFIRM = "#act .acts button:last-child"


@pytest.fixture(scope="module")
def console_broker() -> Iterator[Broker]:
    with Broker(settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        for name in ("orders", "old-orders"):
            create(client, name, 3)
        commit_offset(client, "billing", 0)
        open_transaction = producer(broker, "checkout")
        write(open_transaction, b"open", partition=1)
        yield broker


class User:
    """Clicks and types, and counts the clicks."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.clicks = 0

    def click(self, selector: str) -> None:
        self.browser.wait("document.querySelector(arguments[0])", selector)
        self.browser.click(selector)
        self.clicks += 1

    def go(self, page: str) -> None:
        """Click a link in the header."""
        self.click(f"#nav a[href='#{page}?']")
        self.browser.wait("document.body.dataset.page === arguments[0] && document.body.dataset.draws > 0", page)

    def find(self, name: str, page: str) -> None:
        """Search for a name, and go to the first result."""
        self.browser.press("/")
        self.browser.wait("document.activeElement.id === 'match'")
        self.browser.write("#match", name)
        self.browser.wait("document.querySelector('#found a')?.textContent === arguments[0]", name)
        self.browser.press("ENTER")
        self.browser.wait("document.body.dataset.page === arguments[0] && document.body.dataset.draws > 0", page)
        self.clicks += 2

    def choose(self, selector: str, value: str) -> None:
        script = "const s = document.querySelector(arguments[0]); s.value = arguments[1]"
        self.browser.script(f"{script}; s.dispatchEvent(new Event('input', {{ bubbles: true }}))", selector, value)
        self.clicks += 1

    def act(self, action: str, shown: str, *, prepare: Callable[[], object] = lambda: None) -> None:
        """Open the dialog of an action, fill it, and confirm it. ``shown`` is text that the page then contains."""
        self.click(f"[data-act={action}]")
        prepare()
        self.browser.wait(f"!document.querySelector('{CONFIRM}').disabled")
        self.click(CONFIRM)
        self.browser.wait(text(shown))

    def write(self, selector: str, value: str) -> None:
        self.browser.write(selector, value)


def look_at_newest_records(user: User) -> None:
    user.find("orders", "topic")
    user.click("a[href^='#messages']")
    user.browser.wait("document.body.dataset.page === 'messages' && document.body.dataset.draws > 0")


def create_topic(user: User) -> None:
    user.go("topics")
    user.act("create-topic", "Topic fresh was created.", prepare=lambda: user.write("#act-topic", "fresh"))


def write_record(user: User) -> None:
    user.find("orders", "topic")
    user.act("produce", "The record was written", prepare=lambda: user.write("#act-value", "v"))


def write_aborted_record(user: User) -> None:
    user.find("orders", "topic")
    user.act("produce", "in a transaction that was aborted", prepare=lambda: user.choose("#act-transaction", "aborted"))


def change_retention(user: User) -> None:
    user.find("orders", "topic")
    user.click("a[href^='#configs']")
    user.click("[aria-label='edit retention.ms']")
    user.write("#act-value", "60000")
    user.browser.wait(f"!document.querySelector('{CONFIRM}').disabled")
    user.click(CONFIRM)
    user.browser.wait(text("Config retention.ms of topic orders was set."))


def empty_topic(user: User) -> None:
    user.find("orders", "topic")
    user.act("delete-records", "of orders were deleted")


def see_why_group_waits(user: User) -> None:
    user.find("billing", "group")
    user.browser.wait(text("Why the group has this lag"))


def reset_group(user: User) -> None:
    user.find("billing", "group")
    user.act("reset-group", "offsets of group billing were set.", prepare=lambda: user.choose("#act-place", "day"))


def abort_transaction(user: User) -> None:
    user.go("transactions")
    user.click("#live tr.ongoing a")
    user.act("abort-transaction", "The transaction of checkout was aborted")


def delete_topic(user: User) -> None:
    user.find("old-orders", "topic")
    user.act("delete-topic", "Topic old-orders was deleted.")


TASKS: dict[str, Callable[[User], None]] = {
    "find a topic and look at its newest records": look_at_newest_records,
    "create a topic": create_topic,
    "write a record": write_record,
    "write a record in a transaction that is aborted": write_aborted_record,
    "change a topic's retention": change_retention,
    "empty a topic": empty_topic,
    "see why a group does not advance": see_why_group_waits,
    "reset a group to yesterday": reset_group,
    "find the transaction that blocks consumers, and abort it": abort_transaction,
    "delete a topic that is no longer used": delete_topic,
}


def test_daily_console_tasks_need_as_many_clicks_as_documented(browser: Browser, console_broker: Broker) -> None:
    section = PAGE.read_text().partition("## Ten daily tasks")[2].partition("\n## ")[0]
    documented = {name: int(clicks) for name, clicks in re.findall(r"^\| ([^|]+) \| (\d+) \|", section, re.MULTILINE)}
    counted = {}
    for name, work in TASKS.items():
        browser.enter(console_broker.ready["console"])
        user = User(browser)
        work(user)
        counted[name] = user.clicks
    assert counted == documented
    assert browser.complaints() == []
