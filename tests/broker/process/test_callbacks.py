"""Exceptions in callbacks of the event loop are counted as bugs, and logged without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.process.running import report_bugs_of_callbacks
from tests.support.world import simulated_env

SECRET = "".join(("hu", "sh"))
"""Not a literal, because a traceback shows the lines of this file."""


def run(callback: Callable[[], None], lifecycle: Lifecycle) -> None:
    async def running() -> None:
        report_bugs_of_callbacks(lambda: lifecycle)
        loop = asyncio.get_running_loop()
        loop.call_soon(callback)
        await asyncio.sleep(0)

    asyncio.run(running())


def test_bug_in_a_callback_is_counted_and_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    lifecycle = Lifecycle(simulated_env())

    def callback() -> None:
        raise KeyError(SECRET)

    with capture_logs() as lines:
        run(callback, lifecycle)
    (line,) = lines
    assert (line["event"], lifecycle.unexpected_errors) == ("callback_failed", 1)
    assert "test_callbacks.py" in line["exception"] and SECRET not in f"{line}{caplog.text}"


def test_error_of_a_socket_in_a_callback_is_not_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    lifecycle = Lifecycle(simulated_env())

    def callback() -> None:
        raise ConnectionResetError("reset")

    run(callback, lifecycle)
    assert lifecycle.unexpected_errors == 0
    assert "ConnectionResetError" in caplog.text
