"""Logs the errors of operations that are retried: each error once, and while it lasts how often it came, at growing intervals.

A retry every 100 ms would otherwise write ten equal lines a second until a person mends the cause.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from ottla.broker.loop.env import Clock

FIRST_INTERVAL_MS: Final = 10_000
"""The time until an error that lasts is logged again. It doubles with each such line."""
LONGEST_INTERVAL_MS: Final = 600_000
MAX_ERRORS: Final = 1_000
"""How many different errors are remembered. The oldest is forgotten first, and logged again if it comes again."""


class _Repeated:
    """An error that was logged. ``times`` counts its occurrences since the first one."""

    __slots__ = ("interval_ms", "next_ms", "times")

    def __init__(self, now_ms: float) -> None:
        self.times = 1
        self.interval_ms = FIRST_INTERVAL_MS
        self.next_ms = now_ms + FIRST_INTERVAL_MS


class RepeatedErrors:
    """The errors of operations that one object retries. ``log`` is a logger of structlog.

    An error is the same as an earlier one if its event, reason and key are equal. Other fields, such as counts, may differ.
    """

    def __init__(self, clock: Clock, log: Any) -> None:
        self._clock = clock
        self._log = log
        self._known: dict[tuple[Hashable, str, str], _Repeated] = {}

    def failed(self, event: str, reason: str, *, key: Hashable = None, level: str = "warning", **fields: Any) -> None:
        """Log an error if it is new, or if it is time to say that it lasts. ``key`` names one of several operations."""
        now_ms = self._clock.monotonic_ms()
        known = self._known.get((key, event, reason))
        if known is None:
            while len(self._known) >= MAX_ERRORS:
                del self._known[next(iter(self._known))]
            self._known[key, event, reason] = _Repeated(now_ms)
            getattr(self._log, level)(event, reason=reason, **fields)
            return
        known.times += 1
        if now_ms >= known.next_ms:
            known.interval_ms = min(2 * known.interval_ms, LONGEST_INTERVAL_MS)
            known.next_ms = now_ms + known.interval_ms
            getattr(self._log, level)(event, reason=reason, times=known.times, **fields)

    def succeeded(self, key: Hashable = None) -> None:
        """Forget the errors of an operation: the next one is new."""
        if self._known:
            self._known = {error: known for error, known in self._known.items() if error[0] != key}
