"""How long a connection waits before it is tried again: longer after each failure, and by chance (ExponentialBackoff of Kafka)."""

from __future__ import annotations

import msgspec

MULTIPLIER = 2.0
JITTER = 0.2
"""By which share a delay is longer or shorter by chance, so that those whom one failure has hit do not come back all at once."""
MAX_DOUBLINGS = 30
"""Beyond this the delay does not grow, whatever its bounds are."""


class Backoff(msgspec.Struct):
    """The delays of one connection, from ``first_ms`` up to ``longest_ms``."""

    first_ms: float
    longest_ms: float
    failures: int = 0
    """How often in a row the connection has failed."""

    def next_ms(self, chance: float) -> float:
        """Note a failure; returns the delay until the next attempt. ``chance`` is at least 0 and below 1."""
        delay_ms = min(self.first_ms * MULTIPLIER ** min(self.failures, MAX_DOUBLINGS), self.longest_ms)
        self.failures += 1
        return min(delay_ms * (1 - JITTER + 2 * JITTER * chance), self.longest_ms)

    def reset(self) -> None:
        """Note a success: the next failure waits ``first_ms`` again."""
        self.failures = 0
