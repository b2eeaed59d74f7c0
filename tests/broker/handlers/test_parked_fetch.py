"""A parked fetch notices data that is appended while it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.broker.handlers.support.parked_fetch import read_when_woken
from ottla.broker.loop.stepping import Work
from ottla.broker.loop.wakeup import Wakeup
from ottla.protocol.steps import next_turn
from ottla.simulation.broker import SimulatedBroker

WAIT_MS = 1_000


class Source:
    """Replaces partitions. A read takes three steps, and returns how much data was readable at the first step."""

    def __init__(self) -> None:
        self.there = 0
        self.wanted = 1
        self.readings = 0
        self.waiters: dict[Callable[[], None], None] = {}
        self.between: Callable[[], None] = lambda: None

    def grow(self) -> None:
        self.there += 1
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter()

    def listen(self, wakeup: Wakeup) -> None:
        self.waiters[wakeup.wake] = None

    def ignore(self, wakeup: Wakeup) -> None:
        self.waiters.pop(wakeup.wake, None)

    def may_have_enough(self) -> bool:
        return True

    async def read(self, *, is_last: bool) -> str | None:
        self.readings += 1
        seen = self.there
        await next_turn()
        self.between()
        await next_turn()
        return f"{seen} at last" if is_last else f"{seen}" if seen >= self.wanted else None


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    yield broker
    broker.close()


def parked(broker: SimulatedBroker, source: Source, wakeup: Wakeup | None = None) -> tuple[list[str], Work[str]]:
    """Start a fetch. Returns a list that will contain the response, and the parked work."""
    answers: list[str] = []
    wakeup = wakeup or Wakeup(broker.env, WAIT_MS)
    work = Work(broker.broker.stepping, read_when_woken(broker.broker, source, wakeup), answers.append, failed)
    work.resume(None)
    broker.env.settle()
    return answers, work


def failed(error: Exception) -> None:
    raise error


def test_parked_fetch_notices_data_appended_between_two_read_steps(broker: SimulatedBroker) -> None:
    source = Source()
    source.wanted = 2
    answers, _ = parked(broker, source)

    def once() -> None:
        source.between = lambda: None
        source.grow()

    source.between = once
    source.grow()
    broker.env.settle()
    assert (answers, source.readings) == (["2"], 2)
    assert source.waiters == {}


def test_fetch_notices_data_appended_before_it_is_parked(broker: SimulatedBroker) -> None:
    source, wakeup = Source(), Wakeup(broker.env, WAIT_MS)
    source.listen(wakeup)
    source.grow()
    answers, _ = parked(broker, source, wakeup)
    assert answers == ["1"]


def test_fetch_that_times_out_while_it_reads_is_answered_after_the_read(broker: SimulatedBroker) -> None:
    source = Source()
    source.wanted = 9
    before = {id(call) for _, call in broker.env.scheduler.timers}
    answers, _ = parked(broker, source)
    (timer,) = (call for _, call in broker.env.scheduler.timers if id(call) not in before)
    source.between = timer.make
    source.grow()
    broker.env.settle()
    assert (answers, source.readings) == (["1 at last"], 2)


def test_cancelled_fetch_does_not_read_the_log(broker: SimulatedBroker) -> None:
    source = Source()
    _, work = parked(broker, source)
    work.cancel()
    source.grow()
    broker.sleep(2 * WAIT_MS)
    assert (source.readings, source.waiters) == (0, {})
