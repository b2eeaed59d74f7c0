"""Runs several plays at once on one broker, with one restart for all plays that wait for a restart.

A play is a function that sends requests to the broker and waits for the responses. Each play has its own thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Play(Generic[T]):
    """A function that sends requests to the broker.

    While a ``single`` play runs, no other play runs; others may wait for a restart meanwhile.
    """

    ask: Callable[[], T]
    single: bool = False


@dataclass(slots=True)
class _Turn(Generic[T]):
    """A play (a function that sends requests) to start, or to resume after a restart."""

    play: Play[T]
    outcome: Future[T] = field(default_factory=Future)
    kill: bool = False
    has_begun: bool = False
    goes_on: bool = False
    error: Exception | None = None


class Together(Generic[T]):
    """Runs plays on one broker, at most ``at_once`` at a time.

    A play that requests a restart waits, and another play may start in its place. The broker is restarted when every play that has
    not ended waits for a restart, so all of them share one restart. The result of each play is the same as if it ran alone: all of
    its earlier requests were answered before the restart, and its later requests are sent after the restart.
    """

    def __init__(self, restart: Callable[[bool], object], at_once: int) -> None:
        self._restart_broker = restart
        self._at_once = at_once
        self._change = threading.Condition()
        self._running: list[_Turn[T]] = []
        self._stopped: list[_Turn[T]] = []
        self._own = threading.local()

    def play(self, plays: Sequence[Play[T]]) -> list[Future[T]]:
        """Run the plays, started in the given order, and return their results after all have ended."""
        turns = [_Turn(play) for play in plays]
        ready = deque(turns)
        with self._change:
            while True:
                while ready and self._has_place_for(ready[0].play):
                    self._let_run(ready.popleft())
                if self._running:
                    self._change.wait()
                elif self._stopped:
                    ready += self._restart()
                else:
                    return [turn.outcome for turn in turns]

    def _has_place_for(self, play: Play[T]) -> bool:
        if play.single or any(turn.play.single for turn in self._running):
            return not self._running
        return len(self._running) < self._at_once

    def _let_run(self, turn: _Turn[T]) -> None:
        self._running.append(turn)
        if turn.has_begun:
            turn.goes_on = True
            self._change.notify_all()
        else:
            turn.has_begun = True
            threading.Thread(target=self._run, args=(turn,), daemon=True).start()

    def restart(self, *, kill: bool = False) -> None:
        """Let the calling play wait until the broker was restarted. Raises the exception of a failed restart."""
        turn: _Turn[T] = self._own.turn
        with self._change:
            turn.kill, turn.goes_on, turn.error = kill, False, None
            self._stopped.append(turn)
            self._leave(turn)
            self._change.wait_for(lambda: turn.goes_on)
        if turn.error is not None:
            raise turn.error

    def _run(self, turn: _Turn[T]) -> None:
        self._own.turn = turn
        try:
            turn.outcome.set_result(turn.play.ask())
        except BaseException as error:
            turn.outcome.set_exception(error)
        finally:
            with self._change:
                self._leave(turn)

    def _leave(self, turn: _Turn[T]) -> None:
        self._running = [other for other in self._running if other is not turn]
        self._change.notify_all()

    def _restart(self) -> list[_Turn[T]]:
        """Restart the broker, and return the turns that may resume.

        A clean stop does not count as a kill, nor a kill as a clean stop: plays that wait for the other kind wait for the next
        restart.
        """
        kill = self._stopped[0].kill
        served = [turn for turn in self._stopped if turn.kill == kill]
        self._stopped = [turn for turn in self._stopped if turn.kill != kill]
        try:
            self._restart_broker(kill)
        except Exception as error:
            for turn in served:
                turn.error = error
        return served
