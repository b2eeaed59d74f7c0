"""A transaction writes Prepare, then its markers, then Complete: a wrong order is detected at the step that causes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.coordinator.group.records import CommittedOffset, offset_record
from ottla.coordinator.result import Result
from ottla.invariants import CHECKED
from ottla.simulation.broker import SimulatedBroker
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.handling import handled


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    started = SimulatedBroker().start()
    yield started
    started.close()
    assert started.bugs == 0


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    made = World(broker, "ottla", "inv-")
    for command in ("topic t", "A = init x", "produce A t"):
        perform(made, command)
    yield made
    made.close()


def test_writing_markers_of_an_ongoing_transaction_violates_an_invariant(broker: SimulatedBroker, world: World) -> None:
    transactions = broker.broker.transactions
    shard = transactions.shard_of("inv-x")
    with pytest.raises(AssertionError, match="which is Ongoing"):
        handled(transactions._completions._markers.write(shard, shard.ids["inv-x"]))


def test_completing_a_transaction_with_pending_markers_violates_an_invariant(broker: SimulatedBroker, world: World) -> None:
    transactions = broker.broker.transactions
    shard = transactions.shard_of("inv-x")
    perform(world, "hold t")
    perform(world, "commit A")
    assert perform(world, "describe x").startswith("Prepare")
    with pytest.raises(AssertionError, match="with pending markers"):
        handled(transactions._completions._log_complete(shard, shard.ids["inv-x"]))


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("whole_states", "says"), [(True, "offsets of producer 7 are pending"), (False, "7 has no open transaction")]
)
def test_pending_offsets_without_an_open_transaction_violate_an_invariant(
    broker: SimulatedBroker, world: World, monkeypatch: pytest.MonkeyPatch, whole_states: bool, says: str
) -> None:
    monkeypatch.setattr(CHECKED, "whole_states", whole_states)
    perform(world, "committed g t")
    broker.with_coordinators()
    _, runtime = broker.broker.groups.shard("inv-g")
    monkeypatch.setattr(type(runtime.partition.log.producers), "apply_data", lambda *_: None)
    record = offset_record(("inv-g", "inv-t", 0), CommittedOffset(1, -1, "", 0))
    with pytest.raises(AssertionError, match=says):
        runtime.execute_transactional(Result(None, records=[record]), 7, 0)
