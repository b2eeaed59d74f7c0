"""Adds to the report of a failed test what happened on its broker."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.handle import Broker

MAX_FILE_NAME = 100
"""Maximum length of the name of the file about a failed test, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A test's broker, and the broker's state before the test."""

    broker: Broker
    logged_lines: int
    now_ms: int
    reports: Path
    """The directory for the files of failed tests."""


BROKER = pytest.StashKey[Before]()
"""Key of a test's broker in the test's stash."""


def _report_section(item: pytest.Item, phase: str, before: Before) -> tuple[str, str] | None:
    """Return the newest events on the broker since the test's start. A file in pytest's temporary directory has all events."""
    from ottla.testing.report import failure_report

    name = re.sub(r"[^A-Za-z0-9.-]+", "_", item.nodeid)[-MAX_FILE_NAME:]
    file = before.reports / f"{name}-{phase}.txt"
    lines = failure_report(before.broker, before.logged_lines, before.now_ms, file)
    return (f"what happened on {before.broker!r}", "\n".join(lines)) if lines else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and BROKER in item.stash and not report.skipped:
        section = _report_section(item, call.when, item.stash[BROKER])
        report.sections += [] if section is None else [section]
    return report
