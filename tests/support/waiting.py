"""Helpers that wait for another process: for a condition, or for lines in a broker's log."""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla import Broker

TIMEOUT_S = 60.0
"""Limit in seconds. It only guards against hanging."""
PAUSE_S = 0.01


def wait_until(is_so: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until the condition is true. Raises AssertionError after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(PAUSE_S)


def logged(broker: Broker, text: str, count: int = 1) -> list[str]:
    """Wait for ``count`` lines with ``text`` in the broker's log, and return them. Raises AssertionError after the timeout.

    A thread reads the lines of a running broker, so a response can arrive before a line that was logged earlier. After the broker
    has ended, ``broker.logs`` has all of its lines.
    """
    wait_until(lambda: sum(text in line for line in broker.logs) >= count)
    return [line for line in broker.logs if text in line]
