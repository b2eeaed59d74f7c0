"""Checks pages with axe-core, a library of accessibility rules (MPL-2.0), which the tests fetch into the cache."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from tests.support.fetched import node_package
from tools.browser import Browser

VERSION: Final = "4.14.1"
SERIOUS: Final = ("serious", "critical")
RUN: Final = """
const done = arguments[arguments.length - 1];
const failed = (error) => done([{ id: String(error), impact: "critical", help: "axe failed", nodes: [] }]);
axe.run(document).then((results) => done(results.violations), failed);
"""


@cache
def _source() -> str:
    """Return the source code of axe-core. Raises `Unavailable`."""
    return (node_package(f"axe-core-{VERSION}", f"axe-core@{VERSION}") / "axe-core" / "axe.min.js").read_text()


def violations(browser: Browser) -> list[str]:
    """Return the rules that the shown page breaks seriously, each with the first elements that break it."""
    if not browser.script("return Boolean(window.axe)"):
        browser.script(_source())
    found: list[dict[str, Any]] = browser.driver.execute_async_script(RUN)
    serious = [one for one in found if one["impact"] in SERIOUS]
    return [f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in serious]
