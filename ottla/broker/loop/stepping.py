"""Runs long work in steps, between which the event loop serves other clients.

All clients share the event loop, so no work may block it for long. Requests and housekeeping are coroutines (`protocol.steps`); a
step is the code that runs between two ``await``s. In each turn of the loop, each coroutine that is ready runs one step, in order,
until the turn's time is used up; the remaining coroutines run first in the next turn. Between two turns the loop reads sockets and
handles other requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.broker.loop.env import Env
from ottla.protocol.steps import Pause, Step, Steps

T = TypeVar("T")
V = TypeVar("V")

TURN_MS = 5.0
"""Time in ms during which one turn may begin steps. A step that has begun is finished, so a turn may last one step longer."""
ASIDE_AT_ONCE = 4
"""Maximum number of steps that run in worker threads at the same time. Each may compete with the event loop for the GIL."""


class Work(Generic[T]):
    """A running coroutine, and the callbacks that are called when it ends."""

    __slots__ = ("_stepping", "done", "error", "failed", "is_cancelled", "is_long", "is_running", "on_parked", "pause", "steps")

    def __init__(self, stepping: Stepping, steps: Steps[T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self._stepping = stepping
        self.steps = steps
        self.done = done
        self.failed = failed
        self.error: BaseException | None = None
        self.pause: Pause[object] | None = None
        self.is_running = False
        self.is_cancelled = False
        self.is_long = False
        """Whether the work has let other work run, or has used a worker thread."""
        self.on_parked: Callable[[], None] | None = None
        """Called before the work is parked for the first time."""

    def resume(self, step: Step) -> None:
        """Schedule the rest of a coroutine that the caller has started and that now waits for ``step``."""
        self._stepping.wait(self, step)  # type: ignore[arg-type]

    def forget_callbacks(self) -> None:
        """Remove the callbacks, which form a reference cycle with the work, so that a closed connection is freed immediately."""
        self.done = self.failed = _forgotten
        self.on_parked = None

    def cancel(self) -> None:
        """Close the coroutine, so that its ``finally`` blocks run. Its callbacks are not called.

        A coroutine that awaits a `Pause` with ``outlives_client`` is not closed, but completes without a callback.
        """
        self._stepping.cancel(self)  # type: ignore[arg-type]


def _forgotten(_: object) -> None:
    """Replaces omitted callbacks, and the callbacks of work that has ended."""


def raised(error: Exception) -> None:
    """Replaces an omitted ``failed`` callback: raises the error, which `Stepping.guarded` reports as a bug."""
    raise error


class Stepping:
    """The scheduler of a broker's long work."""

    def __init__(self, env: Env, on_bug: Callable[[], None]) -> None:
        """``on_bug`` is called in an ``except`` block when a callback raises."""
        self._env = env
        self._on_bug = on_bug
        self._ready: deque[Work[object]] = deque()
        self._aside_waiting: deque[tuple[Work[object], Callable[[], None]]] = deque()
        self._aside_running = 0
        self._paused = 0
        self._waiting: set[Work[object]] = set()
        """The coroutines that await a `Pause`, parked or not."""
        self._is_scheduled = False
        self._is_stopped = False
        self.longest_step_ms = 0.0
        """The duration of the longest step on the event loop so far, in ms."""

    def __len__(self) -> int:
        """The number of unfinished coroutines. Parked coroutines, which may wait for a client or a time, do not count."""
        return len(self._ready) + len(self._aside_waiting) + self._aside_running + self._paused

    def run(
        self, steps: Steps[T], done: Callable[[T], None] | None = None, failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run ``steps`` to their end. The first step runs in the next turn.

        ``done`` is called with the coroutine's result, ``failed`` with its exception, in the ``except`` block. Without ``failed``
        the exception is a bug. An exception of a callback is a bug, too; other work continues. After `stop`, no work begins.
        """
        if self._is_stopped:
            steps.close()
            return
        self._ready.append(Work(self, steps, done or _forgotten, failed or raised))  # type: ignore[arg-type]
        self._schedule()

    def start(
        self, steps: Steps[T], done: Callable[[T], None] | None = None, failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Like `run`, but the first step runs within this call."""
        if self._is_stopped:
            steps.close()
            return
        try:
            step = steps.send(None)
        except StopIteration as ended:
            if done is not None:
                self.guarded(done, ended.value)
        except Exception as error:
            self.guarded(failed or raised, error)
        else:
            Work(self, steps, done or _forgotten, failed or raised).resume(step)

    def stop(self) -> None:
        """Run no further step, and close all unfinished coroutines.

        A coroutine that the garbage collector closed instead could run its ``finally`` blocks at any time, inside other code.
        """
        self._is_stopped = True
        for work in [*self._ready, *(work for work, _ in self._aside_waiting), *self._waiting]:
            work.steps.close()
        self._ready.clear()
        self._waiting.clear()
        self._aside_waiting.clear()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._ready:
            self._is_scheduled = True
            self._env.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        clock_ms = self._env.monotonic_ms
        began_ms = now_ms = clock_ms()
        for _ in range(len(self._ready)):
            self._step(self._ready.popleft())
            before_ms, now_ms = now_ms, clock_ms()
            self.longest_step_ms = max(self.longest_step_ms, now_ms - before_ms)
            if now_ms - began_ms >= TURN_MS or not self._ready:
                break
        self._schedule()

    def _step(self, work: Work[object]) -> None:
        if work.is_cancelled:
            return
        error, work.error = work.error, None
        work.is_running = True
        try:
            step = work.steps.send(None) if error is None else work.steps.throw(error)
        except StopIteration as ended:
            self.guarded(work.done, ended.value)
            work.forget_callbacks()
        except Exception as failure:
            self.guarded(work.failed, failure)
            work.forget_callbacks()
        else:
            work.is_running = False
            self.wait(work, step)

    def wait(self, work: Work[object], step: Step) -> None:
        """Continue ``work`` when ``step`` has ended (`Work.resume`)."""
        if self._is_stopped or work.is_cancelled:
            work.steps.close()
            return
        if isinstance(step, Pause):
            self._pause(work, step)
            return
        work.is_long = True
        if step is None:
            self._ready.append(work)
            self._schedule()
        else:
            self._aside_waiting.append((work, step))
            self._run_aside()

    def _pause(self, work: Work[object], pause: Pause[object]) -> None:
        work.pause = pause
        self._waiting.add(work)
        if not pause.is_parked:
            self._paused += 1
            pause.then(lambda: self._resumed(work))
            return
        on_parked, work.on_parked = work.on_parked, None
        if on_parked is not None:
            self.guarded(lambda _: on_parked(), None)
        if not work.is_cancelled:
            pause.then(lambda: self._unparked(work))

    def _resumed(self, work: Work[object]) -> None:
        if not work.is_cancelled and not self._is_stopped:
            work.pause = None
            self._waiting.discard(work)
            self._paused -= 1
            self._ready.append(work)
            self._schedule()

    def _unparked(self, work: Work[object]) -> None:
        if not work.is_cancelled and not self._is_stopped:
            work.pause = None
            self._waiting.discard(work)
            self._step(work)

    def cancel(self, work: Work[object]) -> None:
        """Close the coroutine of ``work`` (`Work.cancel`)."""
        if work.is_cancelled:
            return
        work.forget_callbacks()
        if work.pause is not None and work.pause.outlives_client:
            return
        work.is_cancelled = True
        self._waiting.discard(work)
        if work.pause is not None and not work.pause.is_parked:
            self._paused -= 1
        if not work.is_running:
            work.steps.close()

    def guarded(self, call: Callable[[V], None], value: V) -> None:
        """Call a callback. Its exception is reported as a bug, so that other callbacks are still called."""
        try:
            call(value)
        except Exception:
            self._on_bug()

    def _run_aside(self) -> None:
        while self._aside_waiting and self._aside_running < ASIDE_AT_ONCE:
            work, aside = self._aside_waiting.popleft()
            self._aside_running += 1
            self._env.run_aside(aside, lambda error, work=work: self._aside_done(work, error))  # type: ignore[misc]

    def _aside_done(self, work: Work[object], error: BaseException | None) -> None:
        self._aside_running -= 1
        if self._is_stopped:
            work.steps.close()
            return
        if not work.is_cancelled:
            work.error = error
            self._ready.append(work)
            self._schedule()
        self._run_aside()
