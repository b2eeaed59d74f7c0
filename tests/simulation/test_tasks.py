"""Actors as generators: they sleep, wait for a promise, are paused, and are killed."""

from __future__ import annotations

import pytest

from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Promise, Steps, Task


def test_simulated_actor_resumes_after_a_sleep_and_with_the_value_of_a_promise() -> None:
    scheduler, seen, promise = Scheduler(0), list[object](), Promise()

    def steps() -> Steps[None]:
        yield 5
        seen.append(scheduler.now_ms)
        seen.append((yield promise))

    task = Task(scheduler, steps())
    scheduler.settle()
    scheduler.advance(10)
    assert seen == [5]
    promise.resolve("value")
    promise.resolve("another")
    scheduler.settle()
    assert seen == [5, "value"]
    assert task.is_done


def test_error_of_a_promise_is_raised_in_the_simulated_actor_that_waits_for_it() -> None:
    scheduler, seen, promise = Scheduler(0), list[str](), Promise()
    promise.fail(ValueError("lost"))

    def steps() -> Steps[None]:
        with pytest.raises(ValueError, match="lost"):
            yield promise
        seen.append("went on")

    Task(scheduler, steps())
    scheduler.settle()
    assert seen == ["went on"]


def test_paused_simulated_actor_resumes_when_woken_and_ends_when_killed() -> None:
    scheduler, seen = Scheduler(0), list[int]()

    def steps() -> Steps[None]:
        while True:
            yield 10
            seen.append(scheduler.now_ms)

    task = Task(scheduler, steps())
    scheduler.settle()
    scheduler.advance(25)
    task.pause()
    scheduler.advance(100)
    assert seen == [10, 20]
    task.wake()
    scheduler.settle()
    assert seen == [10, 20, 125]
    task.kill()
    scheduler.advance(100)
    assert seen == [10, 20, 125]
    assert task.is_done
