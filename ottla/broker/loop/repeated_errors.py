"""Logs the errors of retried operations: each error once, and then its count at growing intervals.

Without this, a retry every 100 ms would write ten equal lines per second until the cause is fixed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ottla.broker.loop.env import Clock

FIRST_INTERVAL_MS: Final = 10_000
"""Time in ms until a lasting error is logged again. The time doubles each time the error is logged."""
LONGEST_INTERVAL_MS: Final = 600_000
MAX_ERRORS: Final = 1_000
"""Maximum number of different errors that are remembered. Further errors with the same log event are counted together."""
MAX_EVENTS: Final = 100
"""Maximum number of log events whose errors beyond `MAX_ERRORS` are counted. The code has fewer log events."""


class _Repeated:
    """An error that was logged. ``times`` is the number of its occurrences."""

    __slots__ = ("interval_ms", "last_ms", "next_ms", "times")

    def __init__(self, now_ms: float) -> None:
        self.times = 1
        self.interval_ms = FIRST_INTERVAL_MS
        self.last_ms = now_ms
        self.next_ms = now_ms + FIRST_INTERVAL_MS

    def is_over(self, now_ms: float) -> bool:
        """Whether the error has not occurred for so long that its next occurrence counts as new."""
        return now_ms - self.last_ms > LONGEST_INTERVAL_MS

    def is_due(self, now_ms: float) -> bool:
        """Count an occurrence; returns whether it must be logged."""
        self.times += 1
        self.last_ms = now_ms
        if now_ms < self.next_ms:
            return False
        self.interval_ms = min(2 * self.interval_ms, LONGEST_INTERVAL_MS)
        self.next_ms = now_ms + self.interval_ms
        return True


class RepeatedErrors:
    """The errors of operations that one object retries. ``log`` is a structlog logger.

    Errors with equal event, reason and key at most `LONGEST_INTERVAL_MS` apart are occurrences of one error. A value that varies,
    such as a count, must not be in the reason.
    """

    __slots__ = ("_clock", "_further", "_known", "_log", "_rounds")

    def __init__(self, clock: Clock, log: Any) -> None:
        self._clock = clock
        self._log = log
        # The remembered errors, ordered by their last occurrence.
        self._known: dict[tuple[Hashable, str, str], _Repeated] = {}
        # By log event: the errors that occurred while `_known` was full.
        self._further: dict[str, _Repeated] = {}
        # Whether a part has failed, for each running operation in `round`.
        self._rounds: dict[Hashable, bool] = {}

    def failed(self, event: str, reason: str, *, key: Hashable = None, level: str = "warning", **fields: Any) -> None:
        """Log an error if it is new, or if the interval since its last log line has passed. ``key`` distinguishes operations."""
        if key in self._rounds:
            self._rounds[key] = True
        now_ms, error = self._clock.monotonic_ms(), (key, event, reason)
        known = self._known.pop(error, None)
        if known is not None and not known.is_over(now_ms):
            self._known[error] = known
        elif self._has_room(now_ms):
            known, self._known[error] = None, _Repeated(now_ms)
        else:
            known = self._further.get(event)
            if known is None or known.is_over(now_ms):
                known = None
                if len(self._further) < MAX_EVENTS:
                    self._further[event] = _Repeated(now_ms)
        if known is None:
            getattr(self._log, level)(event, reason=reason, **fields)
        elif known.is_due(now_ms):
            getattr(self._log, level)(event, reason=reason, times=known.times, **fields)

    def _has_room(self, now_ms: float) -> bool:
        """Whether another error can be remembered. If the table is full, drops the least recent error, provided it `is_over`."""
        if len(self._known) >= MAX_ERRORS:
            oldest = next(iter(self._known))
            if not self._known[oldest].is_over(now_ms):
                return False
            del self._known[oldest]
        return True

    def succeeded(self, key: Hashable = None) -> None:
        """Forget the errors of an operation, so that its next error counts as new."""
        if self._known:
            self._known = {error: known for error, known in self._known.items() if error[0] != key}

    @contextmanager
    def round(self, key: Hashable) -> Iterator[None]:
        """Context manager of an operation whose parts may call `failed` with ``key``; calls `succeeded` at the end if no part
        does."""
        self._rounds[key] = False
        try:
            yield
        except BaseException:
            # An interrupted operation, such as one that the broker's stop has ended, has not succeeded.
            self._rounds[key] = True
            raise
        finally:
            if not self._rounds.pop(key, True):
                self.succeeded(key)
