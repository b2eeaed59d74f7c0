"""Lag, positions and assignments of groups, and changes of their offsets, which are refused while a group has members."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.admin import groups
from ottla.client.admin.offsets import LATEST
from ottla.client.admin.positions import GroupPosition
from ottla.client.errors import KafkaAnswered
from ottla.protocol.errors import Code
from ottla.protocol.messages import consumer_group_describe, share_group_describe, streams_group_describe
from ottla.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.offset_commit import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

START, END = 10, 100


def describe_topics(request: MetadataRequest) -> MetadataResponse:
    """Return the Metadata response of a cluster that has only the topic t, with two partitions."""
    asked = {topic.name for topic in request.topics or []}
    missing = tuple(sorted(name for name in asked if name not in ("t", None)))
    return metadata(nodes={1: "kafka"}, leaders={"t": [1, 1]} if "t" in asked else {}, missing=missing)


def ends(request: ListOffsetsRequest) -> ListOffsetsResponse:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=p.partition_index, offset=END if p.timestamp == LATEST else START)
        for p in request.topics[0].partitions
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


def broker(kind: str, state: str = "Empty", versions: dict[str, tuple[int, int]] | None = None, **answers: Any) -> ScriptedBroker:
    coordinator = Coordinator(key="g", node_id=1, host="kafka", port=9092)
    listed = ListedGroup(group_id="g", group_type=kind, group_state=state, protocol_type="consumer")
    return ScriptedBroker(
        answers={
            "Metadata": describe_topics,
            "FindCoordinator": [FindCoordinatorResponse(coordinators=[coordinator])],
            "ListGroups": [ListGroupsResponse(groups=[listed])],
            "ListOffsets": ends,
            **answers,
        },
        versions=versions or {},
    )


def committed(*offsets: tuple[str, int, int]) -> OffsetFetchResponse:
    """Return an OffsetFetch response with fields for versions before 8 and for version 8 and later."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name=t, partitions=[OffsetFetchResponsePartition(partition_index=i, committed_offset=o)])
            for t, i, o in offsets
        ],
        groups=[
            OffsetFetchResponseGroup(
                group_id="g",
                topics=[
                    OffsetFetchResponseTopics(
                        name=t, partitions=[OffsetFetchResponsePartitions(partition_index=i, committed_offset=o)]
                    )
                    for t, i, o in offsets
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", [7, 8, 9])
def test_group_lag_is_measured_to_the_high_watermark(version: int) -> None:
    offsets = committed(("t", 0, 40), ("t", 1, -1), ("gone", 0, 3))
    scripted = broker("classic", OffsetFetch=[offsets], versions={"OffsetFetch": (1, version)})
    assert groups.lag(ScriptedCluster(kafka=scripted).brokers(), "g") == {("t", 0): 60}, (
        "lag excludes uncommitted records and deleted topics"
    )


def test_reading_positions_of_a_group_requests_metadata_once_per_topic() -> None:
    """For one page, the console requests the positions of up to 200 groups, so each group must need few requests."""
    scripted = broker("consumer", OffsetFetch=[committed(("t", 0, 40), ("t", 1, 30))])
    brokers = ScriptedCluster(kafka=scripted).brokers()
    listing = groups.find(brokers, "g")
    before = scripted.names().count("Metadata")
    assert len(groups.positions(brokers, listing)) == 2
    assert scripted.names().count("Metadata") - before == 1


def test_group_lag_is_never_negative() -> None:
    """A recreated topic may end before the committed offset of a group."""
    scripted = broker("consumer", OffsetFetch=[committed(("t", 0, 400))])
    assert groups.lag(ScriptedCluster(kafka=scripted).brokers(), "g") == {("t", 0): 0}


@pytest.mark.parametrize(("lag", "expected"), [(7, 7), (-1, 60)])
def test_share_group_lag_is_taken_from_the_broker(lag: int, expected: int) -> None:
    partitions = [
        DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=40, lag=lag),
        DescribeShareGroupOffsetsResponsePartition(partition_index=1, start_offset=-1),
    ]
    topics = [DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=partitions)]
    answer = DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=topics)])
    scripted = broker("share", DescribeShareGroupOffsets=[answer])
    assert groups.lag(ScriptedCluster(kafka=scripted).brokers(), "g") == {("t", 0): expected, ("t", 1): END - START}


@pytest.mark.parametrize(
    ("kind", "api"), [("classic", "OffsetCommit"), ("consumer", "OffsetCommit"), ("share", "AlterShareGroupOffsets")]
)
def test_group_offsets_are_set_with_the_api_of_the_group_type(kind: str, api: str) -> None:
    scripted = broker(kind, OffsetCommit=[OffsetCommitResponse()], AlterShareGroupOffsets=[AlterShareGroupOffsetsResponse()])
    groups.commit(ScriptedCluster(kafka=scripted).brokers(), "g", {("t", 1): 5, ("t", 0): 4})
    assert scripted.names()[-1] == api
    (topic,) = scripted.asked[-1][2].topics
    assert [p.partition_index for p in topic.partitions] == [0, 1]


@pytest.mark.parametrize("state", ["NotReady", "Stable", "PreparingRebalance", "Assigning"])
def test_offsets_of_a_group_with_members_are_not_changed(state: str) -> None:
    scripted = broker("consumer", state)
    with pytest.raises(KafkaAnswered, match=f"the group is {state}; stop its members first") as refused:
        groups.commit(ScriptedCluster(kafka=scripted).brokers(), "g", {("t", 0): 4})
    assert refused.value.code == Code.NON_EMPTY_GROUP
    assert "OffsetCommit" not in scripted.names()


ASSIGNED = b"\0\1\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\0\xff\xff\xff\xff"


@pytest.mark.parametrize(("raw", "assignment"), [(ASSIGNED, {"t": [0, 1]}), (b"", {}), (b"\0\1connect", {})])
def test_classic_group_assignment_is_decoded(raw: bytes, assignment: dict[str, list[int]]) -> None:
    member = DescribedGroupMember(member_id="m", group_instance_id="i", client_id="c", client_host="/h", member_assignment=raw)
    described = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    scripted = broker("classic", "Stable", DescribeGroups=[DescribeGroupsResponse(groups=[described])], OffsetFetch=[committed()])
    group = groups.describe(ScriptedCluster(kafka=scripted).brokers(), "g")
    assert (group.assignor, group.epoch) == ("range", None)
    assert [(m.member_id, m.instance_id, m.assignment) for m in group.members] == [("m", "i", assignment)]


OWNED = {
    "DescribeGroups": DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                group_id="g",
                group_state="Stable",
                protocol_type="consumer",
                members=[DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=ASSIGNED)],
            )
        ]
    ),
    "ConsumerGroupDescribe": consumer_group_describe.ConsumerGroupDescribeResponse(
        groups=[
            consumer_group_describe.DescribedGroup(
                group_id="g",
                group_state="Stable",
                members=[
                    consumer_group_describe.Member(
                        member_id="m",
                        assignment=consumer_group_describe.Assignment(
                            topic_partitions=[consumer_group_describe.TopicPartitions(topic_name="t", partitions=[0, 1])]
                        ),
                    )
                ],
            )
        ]
    ),
    "ShareGroupDescribe": share_group_describe.ShareGroupDescribeResponse(
        groups=[
            share_group_describe.DescribedGroup(
                group_id="g",
                group_state="Stable",
                members=[
                    share_group_describe.Member(
                        member_id="m",
                        assignment=share_group_describe.Assignment(
                            topic_partitions=[share_group_describe.TopicPartitions(topic_name="t", partitions=[0, 1])]
                        ),
                    )
                ],
            )
        ]
    ),
    "StreamsGroupDescribe": streams_group_describe.StreamsGroupDescribeResponse(
        groups=[
            streams_group_describe.DescribedGroup(
                group_id="g",
                group_state="Stable",
                topology=streams_group_describe.Topology(
                    subtopologies=[streams_group_describe.Subtopology(subtopology_id="0", source_topics=["t"])]
                ),
                members=[
                    streams_group_describe.Member(
                        member_id="m",
                        assignment=streams_group_describe.Assignment(
                            # Task 2 has no partition of t: another topic of the subtopology has three partitions.
                            active_tasks=[streams_group_describe.TaskIds(subtopology_id="0", partitions=[0, 1, 2])]
                        ),
                    )
                ],
            )
        ]
    ),
}
"""Describe responses by API: the group g has one member, which owns both partitions of the topic t."""


def owning(kind: str, offset: int) -> ScriptedBroker:
    """Return a broker with a group whose member owns both partitions of t. The group has committed ``offset`` in partition 0.

    With -1 the group has no committed offset.
    """
    share = DescribeShareGroupOffsetsResponseTopic(
        topic_name="t", partitions=[DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=offset)]
    )
    of_share = DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[share] if offset >= 0 else [])
    return broker(
        kind,
        "Stable",
        OffsetFetch=[committed(("t", 0, offset))],
        DescribeShareGroupOffsets=[DescribeShareGroupOffsetsResponse(groups=[of_share])],
        **{api: [answer] for api, answer in OWNED.items()},
    )


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_group_positions_include_each_assigned_partition(kind: str) -> None:
    """An owned partition without a committed offset is listed too, as in kafka-consumer-groups, which shows its offset as -."""
    brokers = ScriptedCluster(kafka=owning(kind, -1)).brokers()
    described = groups.describe(brokers, "g")
    nothing = [GroupPosition("t", index, None, END, None, start=START) for index in (0, 1)]
    assert described.positions == nothing
    assert described.members[0].partitions[:2] == [("t", 0), ("t", 1)]
    assert groups.lag(brokers, "g") == {("t", 0): END - START, ("t", 1): END - START}


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_assigned_partition_without_offset_is_listed_with_partitions_that_have_offsets(kind: str) -> None:
    positions = groups.describe(ScriptedCluster(kafka=owning(kind, 40)).brokers(), "g").positions
    assert [(p.partition, p.committed, p.lag) for p in positions] == [(0, 40, 60), (1, None, None)]


def test_classic_group_of_another_type_has_no_assignment() -> None:
    member = DescribedGroupMember(member_id="m", member_assignment=ASSIGNED)
    described = DescribedGroup(group_id="g", group_state="Stable", protocol_type="connect", members=[member])
    scripted = broker("classic", "Stable", DescribeGroups=[DescribeGroupsResponse(groups=[described])], OffsetFetch=[committed()])
    assert groups.describe(ScriptedCluster(kafka=scripted).brokers(), "g").positions == []
