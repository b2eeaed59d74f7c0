"""Notes signals, so that they end a job in order and not in the middle of a call to Spark's JVM, after which the JVM would give the
next call a wrong answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


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
