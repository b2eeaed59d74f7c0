"""Fixtures: one Chromium for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.browser import Browser, Unavailable


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    try:
        with Browser() as browser:
            yield browser
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser with an empty page: an earlier test's page would report that its broker is down."""
    chromium.driver.get("about:blank")
    chromium.complaints()
    return chromium
