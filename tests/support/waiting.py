"""Waiting for what another process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla import Broker

TIMEOUT_S = 60.0
"""Limit in seconds. It only guards against hanging."""
PAUSE_S = 0.01


def wait_until(is_so: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    """Raises AssertionError when it is not so in time."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(PAUSE_S)


def logged(broker: Broker, text: str, count: int = 1) -> list[str]:
    """The lines of the broker's log with ``text``, once there are ``count`` of them.

    A living broker's lines are read by a thread, so an answer can be here before the line that was logged ahead of it.
    A broker that has ended has all its lines in ``broker.loop.logs``.

    Raises AssertionError when there are not so many in time.
    """
    wait_until(lambda: sum(text in line for line in broker.logs) >= count)
    return [line for line in broker.logs if text in line]
