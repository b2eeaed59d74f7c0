"""Limits on the number of elements in one heartbeat. The limits are far above real use, and low enough that a heartbeat is checked
in one step."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group import named_topics
from ottla.coordinator.group.consumer.heartbeat import check_heartbeat as check_consumer
from ottla.coordinator.group.named_topics import MAX_MEMBER_TOPICS
from ottla.coordinator.group.streams.configuration import MAX_TASKS
from ottla.coordinator.group.streams.requests import (
    MAX_CLIENT_TAGS,
    MAX_SUBTOPOLOGIES,
    MAX_TOPOLOGY_ELEMENTS,
    check_heartbeat,
)
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.coordinator.consumer_world import Consumer, ConsumerGroupWorld
from tests.coordinator.group_world import GROUP
from tests.coordinator.heartbeats import consumer_heartbeat


def names(count: int, prefix: str = "n") -> list[str]:
    return [f"{prefix}{at}" for at in range(count)]


def test_number_of_topics_of_a_group_member_is_limited() -> None:
    beat = consumer_heartbeat(GROUP, "a", 0, rebalance_timeout_ms=1, topic_names=names(MAX_MEMBER_TOPICS), owned={})
    check_consumer(beat, ["uniform"])
    beat.request.subscribed_topic_names = names(MAX_MEMBER_TOPICS + 1)
    with pytest.raises(
        KafkaError, match=r"A member subscribes to 3001 topics by name, and may subscribe to 3000 at most."
    ) as error:
        check_consumer(beat, ["uniform"])
    assert error.value.code is Code.INVALID_REQUEST


def test_number_of_topics_of_a_group_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_topics, "MAX_GROUP_TOPICS", 10)
    world, a, b = ConsumerGroupWorld(), Consumer("a"), Consumer("b")
    world.join(a, *names(6))
    with pytest.raises(KafkaError, match="The members of a group subscribe to 11 topics by name, and may") as error:
        world.join(b, *names(5, "other"))
    assert error.value.code is Code.INVALID_REQUEST
    assert list(world.group.members) == ["a"]
    b.epoch = 0
    world.join(b, *names(4, "other"))
    world.settle(a, b)
    world.beat(a, topic_names=names(6, "new"))
    world.settle(a, b)
    world.beat(a)
    assert len(world.group.subscribers) == 10


def joining(**changes: Any) -> StreamsGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 1,
        "topology": Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["in"])]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    return StreamsGroupHeartbeatRequest(**{**fields, **changes})


def going_on(**changes: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3, **changes)


def one_subtopology(**fields: Any) -> Topology:
    return Topology(subtopologies=[Subtopology(subtopology_id="0", **fields)])


def topologies(count: int) -> list[Topology]:
    """Return topologies with ``count`` elements. Each topology has a different kind of element."""
    infos = [TopicInfo(name=name) for name in names(count)]
    configs = [TopicInfo(name="t", topic_configs=[KeyValue(key=name, value="") for name in names(count - 1)])]
    return [
        one_subtopology(source_topics=names(count)),
        one_subtopology(repartition_sink_topics=names(count)),
        one_subtopology(state_changelog_topics=infos),
        one_subtopology(repartition_source_topics=infos),
        one_subtopology(state_changelog_topics=configs),
        one_subtopology(repartition_source_topics=configs),
        one_subtopology(copartition_groups=[CopartitionGroup() for _ in range(count)]),
        one_subtopology(source_topics=["s"], copartition_groups=[CopartitionGroup(source_topics=[0] * (count - 2))]),
        one_subtopology(
            repartition_source_topics=[TopicInfo(name="r")],
            copartition_groups=[CopartitionGroup(repartition_source_topics=[0] * (count - 2))],
        ),
    ]


@pytest.mark.parametrize("kind", range(9))
def test_number_of_elements_in_a_streams_topology_is_limited(kind: int) -> None:
    check_heartbeat(joining(topology=topologies(MAX_TOPOLOGY_ELEMENTS)[kind]))
    with pytest.raises(KafkaError, match="The topology names 5001 topics, configs and copartition groups") as error:
        check_heartbeat(joining(topology=topologies(MAX_TOPOLOGY_ELEMENTS + 1)[kind]))
    assert error.value.code is Code.STREAMS_INVALID_TOPOLOGY


def test_number_of_streams_subtopologies_is_limited() -> None:
    def of(count: int) -> Topology:
        return Topology(subtopologies=[Subtopology(subtopology_id=name) for name in names(count)])

    check_heartbeat(joining(topology=of(MAX_SUBTOPOLOGIES)))
    with pytest.raises(KafkaError, match=r"The topology has 501 subtopologies, and may have 500 at most.") as error:
        check_heartbeat(joining(topology=of(MAX_SUBTOPOLOGIES + 1)))
    assert error.value.code is Code.STREAMS_INVALID_TOPOLOGY


def test_number_of_client_tags_of_a_streams_member_is_limited() -> None:
    tags = [KeyValue(key=name, value="") for name in names(MAX_CLIENT_TAGS)]
    check_heartbeat(joining(client_tags=tags))
    with pytest.raises(KafkaError, match=r"The member has 1001 client tags, and may have 1000 at most.") as error:
        check_heartbeat(joining(client_tags=[*tags, *tags[:1]]))
    assert error.value.code is Code.INVALID_REQUEST


def test_number_of_tasks_in_a_streams_heartbeat_is_limited() -> None:
    def owned(partitions: int, entries: int = 1) -> dict[str, Any]:
        tasks = [TaskIds(subtopology_id="0", partitions=list(range(partitions))) for _ in range(entries)]
        return {"active_tasks": [], "standby_tasks": tasks, "warmup_tasks": []}

    def offsets(count: int) -> list[TaskOffset]:
        return [TaskOffset(subtopology_id="0", partition=at) for at in range(count)]

    def changes(count: int) -> list[dict[str, Any]]:
        return [owned(count), owned(0, count), {"task_offsets": offsets(count)}, {"task_end_offsets": offsets(count)}]

    for taken, refused in zip(changes(MAX_TASKS), changes(MAX_TASKS + 1), strict=True):
        check_heartbeat(going_on(**taken))
        with pytest.raises(KafkaError, match=r"50001 .*, and a topology has 50000 tasks at most.") as error:
            check_heartbeat(going_on(**refused))
        assert error.value.code is Code.INVALID_REQUEST
