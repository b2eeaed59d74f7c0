"""Topologies in heartbeats: refused topologies, equality of topologies, and their configuration by the cluster's topics."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.streams.configuration import InternalTopic, configure
from ottla.coordinator.group.streams.status import StatusCode
from ottla.coordinator.group.streams.topology import (
    check_topic_names,
    check_topology,
    required_topics_hash,
    topology_from_heartbeat,
    topology_of,
)
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TopicInfo, Topology
from tests.coordinator.group_world import FakeTopics

CHANGELOG = TopicInfo(
    name="app-store-changelog", replication_factor=2, topic_configs=[KeyValue(key="cleanup.policy", value="compact")]
)
COUNT = Subtopology(
    subtopology_id="1", repartition_source_topics=[TopicInfo(name="app-repartition")], state_changelog_topics=[CHANGELOG]
)
SPLIT = Subtopology(subtopology_id="0", source_topics=["lines"], repartition_sink_topics=["app-repartition"])
WORDS = Topology(epoch=3, subtopologies=[SPLIT, COUNT])


def test_word_count_streams_topology_is_configured() -> None:
    configured = configure(topology_from_heartbeat(WORDS), FakeTopics({"lines": 4}))
    assert configured.subtopologies is not None
    assert {i: one.task_count for i, one in configured.subtopologies.items()} == {"0": 4, "1": 4}
    assert [one.is_stateful for one in configured.subtopologies.values()] == [False, True]
    assert configured.missing_topics == {
        "app-repartition": InternalTopic("app-repartition", 4, 0, {}),
        "app-store-changelog": InternalTopic("app-store-changelog", 4, 2, {"cleanup.policy": "compact"}),
    }
    assert configured.problem is not None
    assert configured.problem.status_code == StatusCode.MISSING_INTERNAL_TOPICS
    assert not configured.is_ready


def test_streams_topology_is_ready_when_its_topics_exist() -> None:
    topics = FakeTopics({"lines": 4, "app-repartition": 4, "app-store-changelog": 4})
    configured = configure(topology_from_heartbeat(WORDS), topics)
    assert configured.is_ready
    assert not configured.missing_topics


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({}, StatusCode.MISSING_SOURCE_TOPICS),
        ({"lines": 4, "app-repartition": 4, "app-store-changelog": 3}, StatusCode.INCORRECTLY_PARTITIONED_TOPICS),
        ({"lines": 4, "app-repartition": 8}, StatusCode.INCORRECTLY_PARTITIONED_TOPICS),
    ],
)
def test_missing_or_wrongly_partitioned_topics_of_a_streams_topology_are_reported(counts: dict[str, int], code: StatusCode) -> None:
    configured = configure(topology_from_heartbeat(WORDS), FakeTopics(counts))
    assert configured.problem is not None
    assert configured.problem.status_code == code
    assert configured.subtopologies is None
    assert not configured.missing_topics


def joined(left: TopicInfo, source: str) -> Topology:
    """Return a topology that joins a repartitioned stream with a table."""
    join = Subtopology(
        subtopology_id="1",
        source_topics=[source],
        repartition_source_topics=[left],
        copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
    )
    return Topology(
        epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["a"], repartition_sink_topics=["r"]), join]
    )


def test_repartition_topic_has_as_many_partitions_as_the_topic_it_is_joined_with() -> None:
    configured = configure(topology_from_heartbeat(joined(TopicInfo(name="r"), "b")), FakeTopics({"a": 2, "b": 6}))
    assert configured.missing_topics["r"].partition_count == 6


def test_repartition_topic_with_a_fixed_count_must_have_as_many_partitions_as_its_join_partner() -> None:
    configured = configure(topology_from_heartbeat(joined(TopicInfo(name="r", partitions=3), "b")), FakeTopics({"a": 2, "b": 6}))
    assert configured.problem is not None
    assert configured.problem.status_code == StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_streams_group_status_message_names_at_most_three_topics() -> None:
    many = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=list("edcba"))])
    problem = configure(topology_from_heartbeat(many), FakeTopics({})).problem
    assert problem is not None
    assert problem.status_detail == "Source topics a, b, c and 2 additional topics are missing."


BAD = {
    "a subtopology twice": [SPLIT, SPLIT],
    "a changelog that says how many partitions": [
        Subtopology(subtopology_id="0", source_topics=["a"], state_changelog_topics=[TopicInfo(name="c", partitions=1)])
    ],
    "a changelog twice": [Subtopology(subtopology_id="0", source_topics=["a"], state_changelog_topics=[CHANGELOG, CHANGELOG])],
    "a copartition group behind the end": [
        Subtopology(subtopology_id="0", source_topics=["a"], copartition_groups=[CopartitionGroup(source_topics=[1])])
    ],
    "a copartition group below the beginning": [
        Subtopology(subtopology_id="0", source_topics=["a"], copartition_groups=[CopartitionGroup(source_topics=[-1])])
    ],
    "fewer than no partitions": [
        Subtopology(
            subtopology_id="0", repartition_source_topics=[TopicInfo(name="r", partitions=-1)], repartition_sink_topics=["r"]
        )
    ],
    "an internal topic": [Subtopology(subtopology_id="0", source_topics=["__consumer_offsets"])],
    "no topic name": [Subtopology(subtopology_id="0", source_topics=["a b"])],
}


def checked(topology: Topology) -> None:
    check_topic_names(topology)
    check_topology(topology)


@pytest.mark.parametrize("subtopologies", BAD.values(), ids=BAD.keys())
def test_invalid_streams_topologies_are_refused(subtopologies: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as refused:
        checked(Topology(epoch=0, subtopologies=subtopologies))
    assert refused.value.code is Code.STREAMS_INVALID_TOPOLOGY


IMPOSSIBLE = {
    "a circle": [
        Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")], repartition_sink_topics=["r"]),
    ],
    "nobody writes": [Subtopology(subtopology_id="0", source_topics=["a"], repartition_source_topics=[TopicInfo(name="r")])],
    "nothing is read": [Subtopology(subtopology_id="0")],
}


@pytest.mark.parametrize("subtopologies", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_streams_topology_is_refused_when_its_partition_counts_cannot_be_decided(subtopologies: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as refused:
        configure(topology_from_heartbeat(Topology(epoch=0, subtopologies=subtopologies)), FakeTopics({"a": 1}))
    assert refused.value.code is Code.STREAMS_INVALID_TOPOLOGY


def test_configured_streams_topology_does_not_depend_on_order_or_serialization() -> None:
    topology = topology_from_heartbeat(WORDS)
    assert topology == topology_from_heartbeat(Topology(epoch=3, subtopologies=[COUNT, SPLIT]))
    assert topology == topology_of(topology.as_value())
    assert topology != topology_from_heartbeat(Topology(epoch=3, subtopologies=[SPLIT]))


def test_required_topics_are_mapped_to_the_streams_subtopology_that_reads_them() -> None:
    topology = topology_from_heartbeat(WORDS)
    assert topology.required_topics() == {"lines", "app-repartition", "app-store-changelog"}
    assert topology.subtopology_of("app-repartition") == "1"
    assert topology.subtopology_of("app-store-changelog") is None


def test_streams_group_metadata_hash_changes_only_with_required_topics() -> None:
    topology = topology_from_heartbeat(WORDS)
    assert required_topics_hash(topology, FakeTopics({"other": 4})) == 0
    before = required_topics_hash(topology, FakeTopics({"lines": 4}))
    assert before == required_topics_hash(topology, FakeTopics({"other": 4, "lines": 4}))
    assert before != required_topics_hash(topology, FakeTopics({"lines": 5}))
    assert before != required_topics_hash(topology, FakeTopics({"lines": 4, "app-repartition": 4}))
    assert -(1 << 63) <= before < 1 << 63
