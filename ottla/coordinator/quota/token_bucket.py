"""A token bucket, which allows bursts (Kafka's TokenBucket, KIP-599)."""

from __future__ import annotations

from ottla.coordinator.quota.sampled import MAX_THROTTLE_MS, Windows, rounded


class TokenBucket:
    """Fills at the rate of the quota, up to the tokens of all samples of the window. It is exhausted below 0 tokens."""

    __slots__ = ("_tokens", "_updated_ms", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        # As in Kafka, a new bucket was last filled in 1970, so it is full.
        self._tokens = 0.0
        self._updated_ms = 0

    def _burst(self, rate: float) -> float:
        return self.windows.count * (self.windows.size_ms / 1000.0) * rate

    def tokens(self, rate: float, now_ms: int) -> float:
        """Fill the bucket at ``rate`` tokens per second; returns its tokens."""
        self._tokens = min(self._burst(rate), self._tokens + rate * ((now_ms - self._updated_ms) / 1000.0))
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, even if the bucket has fewer. A negative count puts tokens back."""
        self._tokens = min(self._burst(rate), self.tokens(rate, now_ms) - count)

    def throttle_ms(self, rate: float, now_ms: int) -> int | None:
        """How long it takes until an exhausted bucket has 0 tokens; None if it is not exhausted."""
        tokens = self.tokens(rate, now_ms)
        if not tokens < 0:
            return None
        return rounded(-tokens / rate * 1000) if rate > 0 else MAX_THROTTLE_MS
