"""The byte rates to which faults limit requests and responses."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.hooks.interception import Rate


class ByteRate:
    """A `broker.hooks.interception.Rate` shared by all requests and responses that match one fault."""

    __slots__ = ("_bytes_per_ms", "_free_at_ms")

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_ms = bytes_per_second / 1000
        self._free_at_ms = 0.0

    def delay_ms(self, size_bytes: int, now_ms: float) -> float:
        self._free_at_ms = max(self._free_at_ms, now_ms) + size_bytes / self._bytes_per_ms
        return self._free_at_ms - now_ms


class _Slowest:
    __slots__ = ("_rates",)

    def __init__(self, rates: Sequence[Rate]) -> None:
        self._rates = rates

    def delay_ms(self, size_bytes: int, now_ms: float) -> float:
        return max(rate.delay_ms(size_bytes, now_ms) for rate in self._rates)


def slowest(rates: Sequence[Rate]) -> Rate | None:
    """Return a rate that applies the longest delay of ``rates``, or None if there are no rates."""
    if len(rates) > 1:
        return _Slowest(rates)
    return rates[0] if rates else None
