"""Mutes a connection while its client is throttled by a quota or by a limit on new connections."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.loop.env import Clock, Timer, Timers
from ottla.broker.network.pause_reasons import Hold


class Throttle:
    """Mutes one connection while its client is throttled, by the broker's clock (Kafka's ThrottledChannel)."""

    __slots__ = ("_clock", "_hold", "_release", "_timer", "_timers", "_until_ms")

    def __init__(self, clock: Clock, timers: Timers, hold: Callable[[int], None], release: Callable[[int], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._hold = hold
        self._release = release
        self._timer: Timer | None = None
        self._until_ms = 0

    def begin(self, for_ms: int) -> None:
        """Mute the connection. If another request has already muted it, the pause lasts until the later end."""
        if self._hold is _ignore:
            return
        until_ms = self._clock.steady_ms() + for_ms
        if self._timer is not None:
            if until_ms <= self._until_ms:
                return
            self._timer.cancel()
        self._until_ms = until_ms
        self._hold(Hold.THROTTLED)
        self._timer = self._timers.call_by_clock(for_ms, self._over)

    def _over(self) -> None:
        self._timer = None
        self._release(Hold.THROTTLED)

    def end(self) -> None:
        """Cancel the timer of a connection that is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._hold = self._release = _ignore


def _ignore(reason: int) -> None:
    """Replaces the methods of a closed connection, which would keep the connection in memory."""
