"""Runs long work in steps, between which the event loop serves other clients.

All clients share the event loop, so no work may block it for long. Long work of requests and housekeeping is a generator of steps
(`protocol.steps`). Each turn runs one step of each such work, in order, until the turn's time is used up; the rest runs first in
the next turn. Between two turns the loop reads sockets and handles other requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.broker.loop.env import Env
from ottla.protocol.steps import Pause, Steps

T = TypeVar("T")
V = TypeVar("V")

TURN_MS = 5.0
"""Time in ms during which one turn may begin steps. A step that has begun is finished, so a turn may last one step longer."""
ASIDE_AT_ONCE = 4
"""Maximum number of steps that run in worker threads at once. Each may compete with the event loop for the GIL."""


class _Work(Generic[T]):
    """One generator of steps, and the callbacks for its end."""

    __slots__ = ("done", "error", "failed", "steps")

    def __init__(self, steps: Steps[T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self.steps = steps
        self.done = done
        self.failed = failed
        self.error: BaseException | None = None


class Stepping:
    """The one scheduler of a broker's long work."""

    def __init__(self, env: Env, on_bug: Callable[[], None]) -> None:
        """``on_bug`` is called in an ``except`` block when a callback raises."""
        self._env = env
        self._on_bug = on_bug
        self._ready: deque[_Work[object]] = deque()
        self._aside_waiting: deque[tuple[_Work[object], Callable[[], None]]] = deque()
        self._aside_running = 0
        self._paused = 0
        self._is_scheduled = False
        self._is_stopped = False
        self.longest_step_ms = 0.0
        """The duration of the longest step on the event loop so far, in ms."""

    def __len__(self) -> int:
        """The number of unfinished generators of steps."""
        return len(self._ready) + len(self._aside_waiting) + self._aside_running + self._paused

    def run(self, steps: Steps[T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Run ``steps`` to their end. The first step runs in the next turn.

        ``done`` is called with the generator's return value. ``failed`` is called with its exception, in the ``except`` block. An
        exception of one of these callbacks is reported as a bug, and other work continues. After `stop`, no work begins.
        """
        if self._is_stopped:
            return
        self._ready.append(_Work(steps, done, failed))  # type: ignore[arg-type]
        self._schedule()

    def stop(self) -> None:
        """Run no further step. Unfinished work is dropped."""
        self._is_stopped = True
        self._ready.clear()
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

    def _step(self, work: _Work[object]) -> None:
        error, work.error = work.error, None
        try:
            aside = next(work.steps) if error is None else work.steps.throw(error)
        except StopIteration as ended:
            self.guarded(work.done, ended.value)
        except Exception as raised:
            self.guarded(work.failed, raised)
        else:
            if self._is_stopped:
                return
            if aside is None:
                self._ready.append(work)
            elif isinstance(aside, Pause):
                self._paused += 1
                aside.then(lambda: self._resumed(work))
            else:
                self._aside_waiting.append((work, aside))
                self._run_aside()

    def _resumed(self, work: _Work[object]) -> None:
        self._paused -= 1
        if not self._is_stopped:
            self._ready.append(work)
            self._schedule()

    def guarded(self, call: Callable[[V], None], value: V) -> None:
        """Call one of several callbacks. Its exception is reported as a bug, and does not keep the others from being called."""
        try:
            call(value)
        except Exception:
            self._on_bug()

    def _run_aside(self) -> None:
        while self._aside_waiting and self._aside_running < ASIDE_AT_ONCE:
            work, aside = self._aside_waiting.popleft()
            self._aside_running += 1
            self._env.run_aside(aside, lambda error, work=work: self._aside_done(work, error))  # type: ignore[misc]

    def _aside_done(self, work: _Work[object], error: BaseException | None) -> None:
        self._aside_running -= 1
        if self._is_stopped:
            return
        work.error = error
        self._ready.append(work)
        self._schedule()
        self._run_aside()
