"""OffsetFetch of many partitions returns either all offsets that a transaction commits or none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.apis.api import RequestContext
from ottla.broker.handlers import offset_fetch
from ottla.coordinator.group.records import CommittedOffset
from ottla.protocol.errors import Code
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.records import EndTxnMarker
from ottla.simulation.broker import SimulatedBroker
from tests.scenarios.play import perform
from tests.scenarios.world import World

COUNT = 3_000
PRODUCER_ID = 77


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker({"offsets.topic.num.partitions": "1"}).start()
    world = World(broker, "ottla", "")
    perform(world, "topic t")
    assert perform(world, "commit_offsets h t=1").startswith("NONE")
    world.close()
    yield broker
    broker.close()
    assert not broker.bugs


def committed(broker: SimulatedBroker, offset: int, *, count: int, pending: bool) -> None:
    shard, runtime = broker.broker.groups.shard("g")
    offsets = {("t", index): CommittedOffset(offset, -1, "", broker.env.steady_ms()) for index in range(count)}
    result = shard.commit("g", -1, "", None, offsets, broker.env.steady_ms(), transactional=pending)
    if pending:
        runtime.execute_transactional(result, PRODUCER_ID, 0)
    else:
        runtime.execute(result)


def steps_of(broker: SimulatedBroker, groups: list[OffsetFetchRequestGroup], *, stable: bool) -> Any:
    context = RequestContext(9, "test", "", 1, "PLAINTEXT")
    return offset_fetch.handle(broker.broker, OffsetFetchRequest(groups=groups, require_stable=stable), context)


def asked(count: int | None) -> OffsetFetchRequestGroup:
    topics = None if count is None else [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(count)))]
    return OffsetFetchRequestGroup(group_id="g", topics=topics)


@pytest.mark.smoke
@pytest.mark.entry("OFF-01", "OFF-03")
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("is_named", [False, True])
def test_marker_appended_during_offset_fetch_does_not_change_its_response(
    simulated: SimulatedBroker, is_named: bool, stable: bool
) -> None:
    committed(simulated, 1, count=COUNT, pending=False)
    committed(simulated, 2, count=COUNT, pending=True)
    steps = steps_of(simulated, [asked(COUNT if is_named else None)], stable=stable)
    steps.send(None)
    simulated.broker.groups.append_marker(0, EndTxnMarker(PRODUCER_ID, 0, True, 0), 0)
    (answer,) = end_of(steps).groups
    seen = {(p.error_code, p.committed_offset) for p in answer.topics[0].partitions}
    assert seen == ({(Code.UNSTABLE_OFFSET_COMMIT, -1)} if stable else {(0, 1)})
    assert len(answer.topics[0].partitions) == COUNT


def test_each_group_in_a_large_offset_fetch_response_is_consistent(simulated: SimulatedBroker) -> None:
    committed(simulated, 1, count=100, pending=False)
    committed(simulated, 2, count=100, pending=True)
    steps = steps_of(simulated, [asked(100)] * 40, stable=False)
    steps.send(None)
    simulated.broker.groups.append_marker(0, EndTxnMarker(PRODUCER_ID, 0, True, 0), 0)
    answers = [{p.committed_offset for p in group.topics[0].partitions} for group in end_of(steps).groups]
    assert {1} in answers
    assert {2} in answers
    assert all(len(answer) == 1 for answer in answers)


def end_of(steps: Any) -> Any:
    while True:
        try:
            steps.send(None)
        except StopIteration as ended:
            return ended.value
