"""Lets a parked request wait until it is woken or times out (Kafka's DelayedOperation)."""

from __future__ import annotations

from ottla.broker.loop.env import Timer, Timers
from ottla.protocol.steps import Pause

MAX_WAIT_MS = 0x7FFFFFFF


class Wakeup:
    """Wakes one parked request each time `wake` is called, and when its timeout is over.

    The request passes `wake` to the objects that it waits for, and calls `stop` in a ``finally`` block.
    """

    __slots__ = ("_pause", "_timer", "is_over", "is_woken")

    def __init__(self, timers: Timers, timeout_ms: int) -> None:
        self._pause: Pause[None] | None = None
        self.is_woken = False
        """Whether `wake` was called since the last `wait`."""
        self.is_over = False
        """Whether the timeout is over."""
        self._timer: Timer | None = timers.call_later(min(max(0, timeout_ms), MAX_WAIT_MS), self._time_over)

    def wake(self) -> None:
        """End the current or the next `wait`."""
        self.is_woken = True
        self._go_on()

    def _time_over(self) -> None:
        self._timer = None
        self.is_over = True
        self._go_on()

    def _go_on(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.end()

    async def wait(self) -> None:
        """Park the request until `wake` is called or the timeout is over."""
        if not self.is_woken and not self.is_over:
            pause: Pause[None] = Pause(is_parked=True)
            self._pause = pause
            await pause
        self.is_woken = False

    def stop(self) -> None:
        """Cancel the timer. The object cannot be used any longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pause = None


async def sleep(timers: Timers, for_ms: int) -> None:
    """Park the calling coroutine for ``for_ms``."""
    wakeup = Wakeup(timers, for_ms)
    try:
        await wakeup.wait()
    finally:
        wakeup.stop()
