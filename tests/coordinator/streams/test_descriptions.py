"""Descriptions of topologies: when a group is asked for one, what an update does, and what is told of it."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.streams.descriptions import (
    UNCERTAIN,
    Backoff,
    DescriptionStatus,
    NodeType,
    StoreOutcome,
    ask_for_description,
    attach,
    begin_removal,
    begin_update,
    check_update,
    finish_removal,
    finish_update,
    stored_epoch,
)
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.coordinator.streams.world import GROUP, Application, World

SOURCE = TopologyDescriptionNode(name="s", node_type=NodeType.SOURCE, source_topics=["in", "in"], stores=["x"], successors=["p"])
PROCESSOR = TopologyDescriptionNode(name="p", node_type=NodeType.PROCESSOR, stores=["store"], source_topics=["x"])
SINK = TopologyDescriptionNode(name="k", node_type=NodeType.SINK, sink_topic="out")
DESCRIPTION = TopologyDescription(
    subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[SOURCE, PROCESSOR, SINK])],
    global_stores=[TopologyDescriptionGlobalStore(source=SOURCE, processor=PROCESSOR)],
)


@pytest.fixture
def world() -> World:
    world = World()
    world.join(Application("m"))
    return world


def update(
    description: TopologyDescription = DESCRIPTION, member_id: str = "m", epoch: int = 0
) -> StreamsGroupTopologyDescriptionUpdateRequest:
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=GROUP, member_id=member_id, topology_epoch=epoch, topology_description=description
    )


def test_an_update_goes_in_two_steps(world: World) -> None:
    world.run(begin_update(world.group, update()))
    assert world.group.metadata.described_epoch == UNCERTAIN
    assert stored_epoch(world.group) is None
    world.run(finish_update(world.group, 0, StoreOutcome.STORED))
    assert stored_epoch(world.group) == 0
    assert world.reloaded().groups[GROUP].metadata == world.group.metadata


def test_a_store_that_refuses_is_not_asked_again(world: World) -> None:
    world.run(begin_update(world.group, update()))
    world.run(finish_update(world.group, 0, StoreOutcome.REFUSED))
    assert (world.group.metadata.described_epoch, world.group.metadata.undescribed_epoch) == (UNCERTAIN, 0)


def test_a_store_that_fails_leaves_it_uncertain(world: World) -> None:
    world.run(begin_update(world.group, update()))
    before = len(world.log)
    world.run(finish_update(world.group, 0, StoreOutcome.FAILED))
    world.run(begin_update(world.group, update()))
    assert len(world.log) == before


def test_updates_keep_the_groups_epoch(world: World) -> None:
    """It says nothing about assignments."""
    epoch = world.group.metadata.epoch
    world.run(begin_update(world.group, update()))
    world.run(finish_update(world.group, 0, StoreOutcome.STORED))
    assert world.group.metadata.epoch == epoch
    app = Application("n")
    world.join(app)
    assert stored_epoch(world.group) == 0, "a new epoch keeps it"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (update(member_id="other"), Code.UNKNOWN_MEMBER_ID),
        (update(epoch=1), Code.INVALID_REQUEST),
        (
            update(
                TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(nodes=[TopologyDescriptionNode(node_type=9)])])
            ),
            Code.INVALID_REQUEST,
        ),
        (
            update(TopologyDescription(global_stores=[TopologyDescriptionGlobalStore(source=SOURCE, processor=SINK)])),
            Code.INVALID_REQUEST,
        ),
    ],
)
def test_updates_that_are_refused(world: World, request_: StreamsGroupTopologyDescriptionUpdateRequest, code: Code) -> None:
    with pytest.raises(KafkaError) as error:
        begin_update(world.group, request_)
    assert error.value.code is code


def test_updates_that_no_group_would_take() -> None:
    with pytest.raises(KafkaError):
        check_update(update(member_id=""))
    check_update(update())


def test_removal_with_the_group(world: World) -> None:
    world.run(begin_update(world.group, update()))
    world.run(finish_update(world.group, 0, StoreOutcome.STORED))
    assert world.run(begin_removal(world.group)) is False, "somebody is in it"
    world.leave(Application("m", epoch=2))
    assert world.run(begin_removal(world.group)) is True
    assert world.run(begin_removal(world.group)) is True
    world.run(finish_removal(world.group))
    assert world.group.metadata.described_epoch == -1
    assert world.run(begin_removal(world.group)) is False


def test_an_update_that_a_removal_has_overtaken(world: World) -> None:
    """Then nobody knows what the store has."""
    world.run(begin_update(world.group, update()))
    world.run(finish_removal(world.group))
    world.run(finish_update(world.group, 0, StoreOutcome.STORED))
    assert world.group.metadata.described_epoch == UNCERTAIN


def test_a_group_is_asked_until_it_has_told() -> None:
    world, app, backoff = World(), Application("m"), Backoff(lambda: 0.5)

    def is_asked(version: int = 1) -> bool:
        outcome = world.beat(app)
        ask_for_description(outcome, GROUP, version, app.epoch, backoff, world.now_ms)
        return outcome.answer.topology_description_required

    world.join(app)
    assert not is_asked(version=0)
    assert is_asked()
    assert not is_asked(), "it was asked just now"
    world.now_ms += 30_000
    assert is_asked()
    world.now_ms += 30_000
    assert not is_asked(), "it is waited for twice as long"
    world.run(begin_update(world.group, update()))
    world.run(finish_update(world.group, 0, StoreOutcome.STORED))
    backoff.clear(GROUP, 0)
    world.now_ms += 30_000
    assert not is_asked()


def test_waiting_has_an_end() -> None:
    backoff, now_ms = Backoff(lambda: 1.0), 0
    for _ in range(20):
        backoff.extend(GROUP, 0, now_ms)
    assert not backoff.begin(GROUP, 0, 3_599_999)
    assert backoff.begin(GROUP, 0, 3_600_000)
    assert backoff.begin(GROUP, 1, 3_600_001), "another topology"
    backoff.extend(GROUP, 0, 3_600_001)
    assert not backoff.begin(GROUP, 1, 3_600_002), "the older one changes nothing"
    backoff.clear(GROUP)
    assert backoff.begin(GROUP, 1, 3_600_003)


def test_what_is_told(world: World) -> None:
    described = world.shard.describe(GROUP)
    assert described.topology_description_status == DescriptionStatus.NOT_REQUESTED
    attach(described, None)
    assert described.topology_description_status == DescriptionStatus.NOT_STORED
    attach(described, None, has_failed=True)
    assert described.topology_description_status == DescriptionStatus.ERROR
    attach(described, DESCRIPTION)
    assert described.topology_description_status == DescriptionStatus.AVAILABLE
    assert described.topology_description is not None
    source, processor, sink = described.topology_description.subtopologies[0].nodes
    assert (source.source_topics, source.stores) == (["in"], [])
    assert (processor.source_topics, processor.stores) == ([], ["store"])
    assert sink.sink_topic == "out"
