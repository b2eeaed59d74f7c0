"""JavaScript conditions that browser tests check on a page."""

from __future__ import annotations

import json

from tools.browser import Browser

WITHIN_S = 1.0
"""Longest time, in seconds, until a page is rendered or updated."""


def text(value: str) -> str:
    return f"document.body.innerText.includes({json.dumps(value)})"


def state_is(said: str) -> str:
    return f"document.getElementById('state').textContent === {json.dumps(said)}"


def look_elsewhere(browser: Browser) -> None:
    for hidden in ("true", "false"):
        browser.script(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
        browser.script("document.dispatchEvent(new Event('visibilitychange'))")
