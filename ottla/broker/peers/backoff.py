"""The delay before a reconnect, which grows with each failure and has random jitter (Kafka's ExponentialBackoff)."""

from __future__ import annotations

import msgspec

MULTIPLIER = 2.0
JITTER = 0.2
"""Maximum random change of a delay, as a fraction, so that the peers of a failed broker do not all reconnect at the same time."""
MAX_DOUBLINGS = 30
"""Maximum number of times that the delay is doubled, so that it cannot overflow."""


class Backoff(msgspec.Struct):
    """The delays of one connection, from ``first_ms`` up to ``longest_ms``."""

    first_ms: float
    longest_ms: float
    failures: int = 0
    """Number of consecutive failures."""

    def next_ms(self, chance: float) -> float:
        """Record a failure; returns the delay in ms until the next attempt. ``chance`` is a random number from 0 to 1."""
        delay_ms = min(self.first_ms * MULTIPLIER ** min(self.failures, MAX_DOUBLINGS), self.longest_ms)
        self.failures += 1
        return min(delay_ms * (1 - JITTER + 2 * JITTER * chance), self.longest_ms)

    def reset(self) -> None:
        """Record a success, so that the next failure waits ``first_ms`` again."""
        self.failures = 0
