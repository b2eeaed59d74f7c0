"""Rates and means over the samples of a moving window, computed as by Kafka's SampledStat, WindowedSum, Rate and Avg."""

from __future__ import annotations

import math

import msgspec

MAX_THROTTLE_MS = 2**31 - 1
"""The longest throttle time, in ms. In Kafka a longer one overflows, and the client is not throttled."""


class Windows(msgspec.Struct, frozen=True):
    """The samples of a window: ``count`` of them, each ``size_ms`` long (MetricConfig)."""

    count: int
    size_ms: int


METRIC_WINDOWS = Windows(count=2, size_ms=30_000)
"""The window of metrics that no quota limits (metrics.num.samples, metrics.sample.window.ms)."""


class _Sample(msgspec.Struct):
    start_ms: int
    last_ms: int
    events: int = 0
    total: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.events, self.total = 0, 0.0


class Sampled:
    """Values of the last ``windows.count`` samples.

    Sums are taken in the order of Kafka's list, so that they equal Kafka's to the bit.
    """

    __slots__ = ("_current", "_samples", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        sample = self._current_at(now_ms)
        if now_ms - sample.start_ms >= self.windows.size_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.events += 1
        sample.last_ms = now_ms

    def _current_at(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(start_ms=now_ms, last_ms=now_ms))
        return self._samples[self._current]

    def _advance(self, now_ms: int) -> _Sample:
        # Keep one sample more than ``windows.count``, because the oldest sample may overlap the beginning of the window.
        self._current = (self._current + 1) % (self.windows.count + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(start_ms=now_ms, last_ms=now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _purge(self, now_ms: int) -> None:
        age_ms = self.windows.count * self.windows.size_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= age_ms:
                sample.reset(now_ms)

    def window_ms(self, now_ms: int) -> int:
        """The time in ms over which `rate` is computed: since the oldest sample began.

        If fewer than ``windows.count - 1`` samples have passed since then, the missing ones are added with their full length,
        because the rate of a very short time would be too high (Rate.windowSize).
        """
        self._purge(now_ms)
        self._current_at(now_ms)
        size_ms = self.windows.size_ms
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        # Truncate as Java's division does, because the time is negative after the clock was set back.
        full = elapsed_ms // size_ms if elapsed_ms >= 0 else -(-elapsed_ms // size_ms)
        elapsed_ms += max(0, self.windows.count - 1 - full) * size_ms
        return max(elapsed_ms, 1)

    def rate(self, now_ms: int) -> float:
        """The sum of all values in the window, per second."""
        self._purge(now_ms)
        total = 0.0
        for sample in self._samples:
            total += sample.total
        return total / (self.window_ms(now_ms) / 1000.0)

    def mean(self, now_ms: int) -> float:
        """The mean of all values in the window; NaN if there are none."""
        self._purge(now_ms)
        events = sum(sample.events for sample in self._samples)
        return sum(sample.total for sample in self._samples) / events if events else math.nan


def throttle_ms(sampled: Sampled, bound: float, now_ms: int) -> int:
    """How long the client must wait until the rate falls to ``bound``, if nothing is recorded meanwhile; 0 if the rate is not
    higher.

    If O is the observed rate and T the bound over a window of W ms, the wait X follows from O * W / (W + X) = T (QuotaUtils).
    """
    rate = sampled.rate(now_ms)
    if not rate > bound:
        # A bound of NaN, which Apache Kafka may have stored, never throttles.
        return 0
    return rounded((rate - bound) / bound * sampled.window_ms(now_ms)) if bound > 0 else MAX_THROTTLE_MS


def rounded(ms: float) -> int:
    """Round a throttle time as Java's Math.round does, up to `MAX_THROTTLE_MS`."""
    if not ms < MAX_THROTTLE_MS:
        return MAX_THROTTLE_MS
    whole = math.floor(ms)
    return whole + (ms - whole >= 0.5)
