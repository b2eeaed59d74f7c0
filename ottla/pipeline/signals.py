"""Signals end a job in order: at once before anything was begun, and later once Spark's JVM has started or the batch was aborted.

They are noted then, for an exception in the middle of a call to Spark's JVM would make the JVM give the next call a wrong answer.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class Stopped(BaseException):
    """A signal has come while a job was beginning. No error of anybody's: nobody but the job's own end takes it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@contextmanager
def stopping_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Within, these signals raise `Stopped`, and Ctrl-C does so for Spark as well, which takes it for itself (SparkContext).

    For the main thread.
    """

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
    """Inside the block these signals end nothing: they are appended to the list, for the caller to react to. For the main thread
    only."""
    noted: list[signal.Signals] = []
    before = {number: signal.signal(number, lambda given, _: noted.append(signal.Signals(given))) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
