"""The overview in a headless Chromium: stray directories and damaged segments of this broker, and of a broker elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import Broker
from ottla.client.security.client_config import Connecting
from ottla.console.elsewhere import console_server
from tests.console.conditions import text
from tests.support import unsound_directory
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
