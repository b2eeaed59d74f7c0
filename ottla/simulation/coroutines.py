"""Runs the start and the stop of a server, which are coroutines, in simulated time. They may only await a `Promise`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ottla.simulation.env import SimulatedEnv
from ottla.simulation.tasks import Promise

PATIENCE_MS = 120_000
"""Timeout of a coroutine in `run`, in ms of simulated time."""
STEP_MS = 10

Work = Coroutine[Any, Any, None]


def drive(work: Work, call_soon: Callable[[Callable[[], None]], None], ended: Callable[[Exception | None], None]) -> None:
    """Run a coroutine, and resume it after each awaited `Promise`. Its exception, or None, is passed to ``ended``."""
    try:
        promise: Promise = work.send(None)
    except StopIteration:
        ended(None)
    except Exception as error:
        ended(error)
    else:
        promise.then(lambda value, error: call_soon(lambda: drive(work, call_soon, ended)))


def run(work: Work, env: SimulatedEnv) -> None:
    """Let simulated time pass until the coroutine has ended. Raises the coroutine's exception."""
    outcome: list[Exception | None] = []
    drive(work, env.call_soon, outcome.append)
    waited_ms = 0
    while not outcome:
        assert waited_ms < PATIENCE_MS, "a simulated server has not started or stopped in time"
        env.advance(STEP_MS)
        waited_ms += STEP_MS
    if outcome[0] is not None:
        raise outcome[0]
