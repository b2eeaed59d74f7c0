"""Long work runs in steps that alternate fairly with other work, and completes exactly once."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from ottla.broker.loop.stepping import ASIDE_AT_ONCE, TURN_MS, Stepping, Work
from ottla.protocol.steps import Pause, in_thread, next_turn
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem


class Env(SimulatedEnv):
    """An environment whose clock advances only by ``spent_ms``, and in which the test completes work that runs in a thread."""

    def __init__(self) -> None:
        super().__init__(MemoryFilesystem(), random.Random(1), START_MS)
        self.spent_ms = 0.0
        self.aside: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def monotonic_ms(self) -> float:
        return self.spent_ms

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.aside.append((work, done))

    def turn(self) -> None:
        """Run the callbacks that are due now, but not those that they schedule."""
        self.scheduler.turn()


@pytest.fixture
def env() -> Env:
    return Env()


def test_scheduler_alternates_steps_of_concurrent_work(env: Env) -> None:
    stepping, trace, ended = Stepping(env, pytest.fail), [], []

    async def work(name: str, steps: int) -> str:
        for step in range(steps):
            trace.append(f"{name}{step}")
            await next_turn()
        return name

    for name, steps in (("a", 3), ("b", 1), ("c", 2)):
        stepping.run(work(name, steps), ended.append, pytest.fail)
    assert trace == [], "the first step runs in the next turn of the event loop"
    env.settle()
    assert trace == ["a0", "b0", "c0", "a1", "c1", "a2"]
    assert ended == ["b", "c", "a"]
    assert len(stepping) == 0


def test_scheduler_returns_to_the_event_loop_when_its_time_is_used_up(env: Env) -> None:
    stepping, trace = Stepping(env, pytest.fail), []

    async def work(name: int) -> None:
        for _ in range(2):
            trace.append(name)
            env.spent_ms += TURN_MS * 0.6
            await next_turn()

    for name in range(4):
        stepping.run(work(name), lambda _: None, pytest.fail)
    env.turn()
    assert trace == [0, 1]
    env.turn()
    assert trace == [0, 1, 2, 3], "work without a step in the last turn runs first"
    assert stepping.longest_step_ms == pytest.approx(TURN_MS * 0.6)


def test_stopped_scheduler_starts_no_work(env: Env) -> None:
    stepping, trace = Stepping(env, pytest.fail), list[str]()

    async def work() -> None:
        trace.append("begun")
        await next_turn()

    stepping.stop()
    stepping.run(work(), pytest.fail, pytest.fail)
    env.settle()
    assert trace == []


def test_error_in_a_scheduler_thread_is_raised_in_the_waiting_work_and_reported(env: Env) -> None:
    stepping, failures = Stepping(env, pytest.fail), []

    async def work() -> None:
        try:
            await in_thread(lambda: None)
        except OSError:
            raise ValueError("no space") from None

    stepping.run(work(), pytest.fail, failures.append)
    env.settle()
    [(_, done)] = env.aside
    done(OSError("disk"))
    env.settle()
    assert [str(f) for f in failures] == ["no space"]


def test_scheduler_limits_the_number_of_parallel_thread_jobs(env: Env) -> None:
    stepping, ended = Stepping(env, pytest.fail), []

    async def work(name: int) -> int:
        await in_thread(lambda: None)
        return name

    for name in range(ASIDE_AT_ONCE + 2):
        stepping.run(work(name), ended.append, pytest.fail)
    env.settle()
    assert len(env.aside) == ASIDE_AT_ONCE
    env.aside[0][1](None)
    env.settle()
    assert ended == [0]
    assert len(env.aside) == ASIDE_AT_ONCE + 1


def test_stopped_scheduler_continues_no_work(env: Env) -> None:
    stepping, trace = Stepping(env, pytest.fail), []

    async def work() -> None:
        trace.append(1)
        await in_thread(lambda: None)
        trace.append(2)

    stepping.run(work(), pytest.fail, pytest.fail)
    env.settle()
    stepping.stop()
    env.aside[0][1](None)
    env.settle()
    assert trace == [1]


@pytest.mark.parametrize("waits_for", ["a pause", "a parked pause", "a turn", "a thread"])
def test_stopped_scheduler_closes_unfinished_work(env: Env, waits_for: str) -> None:
    stepping, trace = Stepping(env, pytest.fail), list[str]()

    async def work() -> None:
        try:
            if waits_for == "a turn":
                await next_turn()
            elif waits_for == "a thread":
                await in_thread(lambda: None)
            else:
                await Pause[None](is_parked=waits_for == "a parked pause", outlives_client=True)
            trace.append("went on")
        finally:
            trace.append("closed")

    stepping.start(work(), pytest.fail, pytest.fail)
    assert trace == []
    stepping.stop()
    if waits_for == "a thread":
        env.aside[0][1](None)
    assert trace == ["closed"]


def test_error_in_a_completion_callback_does_not_stop_other_scheduled_work(env: Env) -> None:
    bugs: list[BaseException | None] = []
    stepping = Stepping(env, lambda: bugs.append(sys.exc_info()[1]))
    ended: list[object] = []

    async def steps(fails: bool) -> str:
        await next_turn()
        if fails:
            raise ValueError
        return "end"

    def broken(_: object) -> None:
        raise KeyError

    stepping.run(steps(False), broken, broken)
    stepping.run(steps(True), broken, broken)
    stepping.run(steps(False), ended.append, broken)
    env.settle()
    assert ended == ["end"]
    assert [type(bug) for bug in bugs] == [KeyError, KeyError]
    assert len(stepping) == 0


@pytest.mark.parametrize("outlives_client", [False, True])
def test_parked_request_does_not_count_as_running_work_of_the_scheduler(env: Env, outlives_client: bool) -> None:
    stepping, trace = Stepping(env, pytest.fail), list[str]()
    pause: Pause[None] = Pause(is_parked=True, outlives_client=outlives_client)

    async def parked() -> None:
        try:
            await pause
            trace.append("went on")
        finally:
            trace.append("ended")

    work = Work(stepping, parked(), lambda _: trace.append("done"), pytest.fail)
    work.resume(work.steps.send(None))
    assert len(stepping) == 0
    work.cancel()
    assert trace == ([] if outlives_client else ["ended"])
    pause.end()
    assert trace == (["went on", "ended"] if outlives_client else ["ended"])


def test_error_while_parking_a_request_is_logged_as_bug_and_the_request_continues(env: Env) -> None:
    bugs, results = list[str](), list[str]()
    stepping, pause = Stepping(env, lambda: bugs.append("a bug")), Pause[str](is_parked=True)

    async def parked() -> str:
        return await pause

    def fails() -> None:
        raise ValueError

    work = Work(stepping, parked(), results.append, pytest.fail)
    work.on_parked = fails
    work.resume(work.steps.send(None))
    pause.end("response")
    assert (bugs, results) == (["a bug"], ["response"])
