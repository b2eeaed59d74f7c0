"""The reasons why a connection temporarily handles no requests."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.loop.env import Clock, Timer, Timers


class Hold:
    """The reasons, one bit each. While any bit is set, the connection handles no further request, and its socket is not read.

    Each reason names the method that clears its bit. The values are plain numbers for speed: they are tested for every request, and
    a test of an `enum.IntFlag` takes a microsecond.
    """

    PEER = 1
    """The client does not read its responses. Cleared by `Connection.resume_writing`."""
    STEPS = 2
    """A request waits and is not parked. Cleared by `Connection._steps_ended`."""
    WAITING = 4
    """Too many requests wait for their responses, or need too much memory. Cleared by `Connection._fill`."""
    REQUESTS = 8
    """The memory for the requests of all connections is used up. Cleared by `Connection.go_on`, which the budget calls."""
    RESPONSES = 16
    """The memory for the responses of all connections is used up. Cleared by `Connection.go_on`, which the budget calls."""
    TURN = 32
    """The connection has used up its time slice. Cleared by `Connection._next_turn`."""
    MUTED = 64
    """A `broker.hooks.interception.Verdict` mutes the connection after a response. Cleared by the timer of `Connection.mute`."""
    THROTTLED = 128
    """The client has exceeded a quota. Cleared by the timer of `Throttle`."""


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
        """Mute the connection. If it is muted already, because a parked request has ended meanwhile, the later end counts."""
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
        """Forget a connection that is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._hold = self._release = _ignore


def _ignore(reason: int) -> None:
    """In place of the methods of a closed connection, so that they do not keep it in memory."""
