"""The overview of a broker's console and of ``ottla console`` in a headless Chromium: lag, transactions and problems."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import Broker
from ottla.client.security.client_config import Connecting
from ottla.console.elsewhere import console_server
from tests.console.conditions import text
from tests.console.loaded import commit_offset, producer, write
from tests.support import unsound_directory
from tests.support.raw_client import RawClient, create
from tools.browser import Browser

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]


def test_console_overview_in_the_browser_shows_damaged_segments_and_stray_directories(browser: Browser, tmp_path: Path) -> None:
    unsound = unsound_directory.make(tmp_path / "data")
    with Broker(data_dir=unsound.path, settings={"ottla.console": True}) as broker:
        elsewhere = console_server(broker.bootstrap, Connecting.parse({"bootstrap.servers": broker.bootstrap}, prefix=""))
        elsewhere.serve()
        try:
            for number, (url, prefix) in enumerate(((broker.ready["console"], ""), (elsewhere.url, "broker 1: "))):
                browser.enter(url)
                browser.show("overview")
                browser.wait(text(str(unsound.stray())))
                browser.wait(text(f"ottla adopt --from {unsound.stray()} --data-dir {unsound.path}"))
                if number == 0:
                    assert not browser.script(f"return {text('is damaged at byte')}")
                    unsound_directory.read_damage(broker.bootstrap)
                browser.wait(text(f"no: {prefix}{unsound.problem}"))
                assert browser.complaints() == []
        finally:
            elsewhere.close()


def test_console_overview_in_the_browser_links_the_largest_lag_and_the_transaction_that_consumers_wait_for(
    browser: Browser,
) -> None:
    with Broker(settings={"ottla.console": True}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders", 3)
        for number, group in enumerate(("ahead", "billing", "no lag")):
            commit_offset(client, group, (1, 0, 2)[number])
        opened = producer(broker, "checkout")
        write(opened, b"open")
        elsewhere = console_server(broker.bootstrap, Connecting.parse({"bootstrap.servers": broker.bootstrap}, prefix=""))
        elsewhere.serve()
        try:
            for url in (broker.ready["console"], elsewhere.url):
                browser.enter(url)
                browser.wait(text("1 of group billing"))
                assert text_of(browser, "#live a[href='#group?name=billing']") == "1 of group billing"
                browser.wait("document.querySelector(\"#live a[href='#transaction?id=checkout']\")")
                assert text_of(browser, "#live a[href^='#messages']") == "orders:0"
                assert text_of(browser, "#live a[href='#topics?']") == "1 with 3 partitions, and 2 internal"
                assert browser.complaints() == []
        finally:
            elsewhere.close()


def text_of(browser: Browser, selector: str) -> str:
    shown: str = browser.script("return document.querySelector(arguments[0]).innerText", selector)
    return shown
