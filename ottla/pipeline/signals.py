"""Stops a job on a signal: at once before it has begun, and later once Spark's JVM has started or the batch was aborted.

An exception in the middle of a call to Spark's JVM would desynchronise the connection, and the next call would read a wrong
response. So signals are only recorded then.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class Stopped(BaseException):
    """A signal was received before the job had begun. It is not an `Exception`, so that only the end of the job catches it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@contextmanager
def stopping_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Raise `Stopped` on these signals inside the block, also for Ctrl-C, which Spark handles itself (SparkContext). For the main
    thread only."""

    def stop(given: int, _: Any) -> NoReturn:
        raise Stopped(signal.Signals(given))

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(signal.SIGINT) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def noted_signals(*numbers: signal.Signals) -> Iterator[list[signal.Signals]]:
    """Inside the block, append these signals to the list, and let the caller react to them. For the main thread only."""
    noted: list[signal.Signals] = []
    before = {number: signal.signal(number, lambda given, _: noted.append(signal.Signals(given))) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
