"""Transaction markers are sent again after an unexpected exception, so that no transaction stays in a Prepare state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.coordinators.markers import MARKERS_AT_ONCE
from ottla.broker.hooks.interception import IncomingRequest, Latch, Point, Reached, Verdict
from ottla.simulation.broker import SimulatedBroker
from tests.scenarios.play import perform
from tests.scenarios.world import World


class FailingInterception:
    """Raises an unexpected exception at each of ``points``, ``failures`` times in all."""

    watched_keys: frozenset[int] = frozenset()
    watched_handshakes: tuple[()] = ()

    def __init__(self) -> None:
        self.watched_points: frozenset[Point] = frozenset()
        self.failures = 0

    def intercept(self, incoming: IncomingRequest) -> Verdict | None:
        return None

    def reached(self, reached: Reached) -> Latch | None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a bug of the interception")
        return None

    def fails_handshake(self, listener: str, peer: str) -> bool:
        return False


@pytest.fixture
def interception() -> FailingInterception:
    return FailingInterception()


@pytest.fixture
def broker(interception: FailingInterception) -> Iterator[SimulatedBroker]:
    started = SimulatedBroker(interception=interception).start().with_coordinators()
    yield started
    started.close()
    assert started.bugs == 0


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    made = World(broker, "ottla", "bug-")
    yield made
    made.close()


def committed(world: World, broker: SimulatedBroker, partitions: int) -> None:
    """Commit a transaction in ``partitions`` of a topic, and wait until failed markers are sent again."""
    perform(world, f"topic t partitions={partitions}")
    perform(world, "A = init x")
    for index in range(partitions):
        perform(world, f"produce A t/{index}")
    assert perform(world, "commit A") == "NONE p1 e1"
    broker.sleep(5_000)


def assert_completed(world: World, broker: SimulatedBroker, bugs: int) -> None:
    assert broker.broker.unexpected_errors == bugs
    broker.broker.lifecycle.unexpected_errors = 0
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert not broker.broker.transactions._completions._markers._pending


def failing(call: Callable[..., Any], failures: int) -> Callable[..., Any]:
    """Return a function that raises an unexpected exception ``failures`` times, and then calls ``call``."""
    left = [failures]

    def fail_first(*arguments: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("a bug")
        return call(*arguments, **options)

    return fail_first


@pytest.mark.parametrize("failures", [1, 3])
def test_transaction_markers_sent_one_by_one_are_resent_after_an_exception(
    broker: SimulatedBroker, world: World, interception: FailingInterception, failures: int
) -> None:
    interception.watched_points, interception.failures = frozenset({Point.BETWEEN_MARKERS}), failures
    committed(world, broker, 3)
    assert_completed(world, broker, failures)


@pytest.mark.parametrize("failures", [1, 3])
def test_many_transaction_markers_are_resent_after_an_exception(
    broker: SimulatedBroker, world: World, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    markers = broker.broker.transactions._completions._markers
    monkeypatch.setattr(markers, "_addressed", failing(markers._addressed, failures))
    committed(world, broker, MARKERS_AT_ONCE + 1)
    assert_completed(world, broker, failures)


@pytest.mark.parametrize("method", ["_addressed", "_written"])
def test_transaction_markers_are_resent_after_an_exception_in_a_retry(
    broker: SimulatedBroker, world: World, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The exception occurs before the markers are sent (``_addressed``) or when the response is evaluated (``_written``)."""
    markers = broker.broker.transactions._completions._markers
    monkeypatch.setattr(markers, method, failing(getattr(markers, method), 2))
    committed(world, broker, 2)
    assert_completed(world, broker, 2)
