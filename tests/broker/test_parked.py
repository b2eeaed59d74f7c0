"""A parked fetch notices data that arrives while it reads, and a bug in it is answered with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.broker.handlers.support.parked import ParkedFetch
from ottla.protocol.steps import Steps
from ottla.simulation.broker import SimulatedBroker

WAIT_MS = 1_000


class Source:
    """A source that counts available data. A read takes three steps and returns the count of its first step."""

    def __init__(self) -> None:
        self.there = 0
        self.wanted = 1
        self.readings = 0
        self.waiters: dict[Callable[[], None], None] = {}
        self.between: Callable[[], None] = lambda: None
        self.is_abandoned = False

    def grow(self) -> None:
        self.there += 1
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter()

    def listen(self, waiter: Callable[[], None]) -> None:
        self.waiters[waiter] = None

    def ignore(self, waiter: Callable[[], None]) -> None:
        self.waiters.pop(waiter, None)

    def may_have_enough(self) -> bool:
        return True

    def read(self, *, is_last: bool) -> Steps[str | None]:
        self.readings += 1
        seen = self.there
        yield None
        self.between()
        yield None
        return f"{seen} at last" if is_last else f"{seen}" if seen >= self.wanted else None

    def refused(self) -> str:
        return "refused"

    def abandoned(self) -> None:
        self.is_abandoned = True


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    yield broker
    broker.close()


def parked(broker: SimulatedBroker, source: Source) -> list[str]:
    """Park a fetch and return the list of its responses, which gets one entry."""
    answers: list[str] = []
    later = ParkedFetch(broker.broker, source).park(WAIT_MS, is_large=False)
    later.on_ready(answers.append)
    return answers


def test_growth_between_two_read_steps_is_noticed(broker: SimulatedBroker) -> None:
    source = Source()
    source.wanted = 2
    answers = parked(broker, source)

    def once() -> None:
        source.between = lambda: None
        source.grow()

    source.between = once
    source.grow()
    broker.env.settle()
    assert (answers, source.readings) == (["2"], 2)
    assert source.waiters == {}


def test_growth_before_parking_is_noticed(broker: SimulatedBroker) -> None:
    source = Source()
    fetch = ParkedFetch(broker.broker, source)
    fetch.listen()
    source.grow()
    answers: list[str] = []
    fetch.park(WAIT_MS, is_large=False).on_ready(answers.append)
    broker.env.settle()
    assert answers == ["1"]


def test_timeout_during_a_read_is_answered_after_it(broker: SimulatedBroker) -> None:
    source = Source()
    source.wanted = 9
    before = {id(call) for _, call in broker.env.scheduler.timers}
    answers = parked(broker, source)
    (timer,) = (call for _, call in broker.env.scheduler.timers if id(call) not in before)
    source.between = timer.make
    source.grow()
    broker.env.settle()
    assert (answers, source.readings) == (["1 at last"], 2)


def test_bug_during_a_read_is_answered_with_an_error(broker: SimulatedBroker) -> None:
    source = Source()
    answers = parked(broker, source)

    def fails() -> None:
        raise ValueError("a bug")

    source.between = fails
    source.grow()
    broker.env.settle()
    assert answers == ["refused"]
    assert broker.broker.lifecycle.unexpected_errors == 1


def test_abandoned_fetch_is_not_read(broker: SimulatedBroker) -> None:
    source = Source()
    later = ParkedFetch(broker.broker, source).park(WAIT_MS, is_large=False)
    later.abandon()
    source.grow()
    broker.sleep(2 * WAIT_MS)
    assert (source.readings, source.is_abandoned, source.waiters) == (0, True, {})
