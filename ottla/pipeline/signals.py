"""Stops a job on a signal.

Before a job uses Spark, a signal raises an exception. Later signals are only recorded for the job: an exception in the middle of a
call to Spark's JVM would let the next call read the response to the interrupted call.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class Stopped(BaseException):
    """A signal has stopped the job. It is a `BaseException`, so that ``except Exception`` does not catch it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@contextmanager
def stopping_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Inside the block, raise `Stopped` for the signals ``numbers``, and for the KeyboardInterrupt of SparkContext's handler. Works
    in the main thread only."""

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
    """Append the signals ``numbers`` to the yielded list instead of handling them. Works in the main thread only."""
    noted: list[signal.Signals] = []
    before = {number: signal.signal(number, lambda given, _: noted.append(signal.Signals(given))) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
