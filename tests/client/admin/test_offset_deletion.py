"""Deletion of a group's committed offsets: which offsets are selected, the request of each group type, and refused deletions."""

from __future__ import annotations

import pytest

from ottla.client.admin.offset_deletion import delete_offsets, plan_offset_deletion
from ottla.client.errors import ClientError, KafkaAnswered
from ottla.protocol.errors import Code
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.offset_delete import OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from tests.client.admin.test_groups import broker, committed, owning
from tests.client.scripted import ScriptedCluster


def planned(*topics: tuple[str, int | None]) -> list[tuple[str, int, int | None]]:
    scripted = broker("consumer", OffsetFetch=[committed(("t", 0, 40), ("t", 1, 50))])
    positions = plan_offset_deletion(ScriptedCluster(kafka=scripted).brokers(), "g", topics)
    return [(one.topic, one.partition, one.committed) for one in positions]


def test_offset_deletion_selects_the_committed_offsets_of_topics_and_partitions() -> None:
    assert planned(("t", None)) == planned(("t", 1), ("t", None)) == [("t", 0, 40), ("t", 1, 50)]
    assert planned(("t", 1)) == planned(("t", 1), ("t", 1)) == [("t", 1, 50)]


@pytest.mark.parametrize(("topic", "index", "place"), [("nope", None, "nope"), ("t", 7, "t:7")])
def test_offset_deletion_refuses_a_place_without_committed_offset(topic: str, index: int | None, place: str) -> None:
    with pytest.raises(ClientError, match=f"group 'g' has no committed offset of {place};"):
        planned(("t", None), (topic, index))


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_offset_deletion_refuses_a_topic_that_a_member_reads(kind: str) -> None:
    with pytest.raises(KafkaAnswered, match="a member of the group subscribes to the topic") as refused:
        plan_offset_deletion(ScriptedCluster(kafka=owning(kind, 40)).brokers(), "g", [("t", None)])
    assert refused.value.code == Code.GROUP_SUBSCRIBED_TO_TOPIC


def test_offset_deletion_is_one_request_for_all_topics() -> None:
    scripted = broker("consumer", OffsetDelete=[OffsetDeleteResponse()])
    delete_offsets(ScriptedCluster(kafka=scripted).brokers(), "g", [("t", 1), ("s", 0), ("t", 0)])
    assert scripted.names().count("OffsetDelete") == 1
    (request,) = [request for name, _, request in scripted.asked if name == "OffsetDelete"]
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics] == [("s", [0]), ("t", [0, 1])]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (Code.GROUP_SUBSCRIBED_TO_TOPIC, "in topic 't' cannot be deleted: GROUP_SUBSCRIBED_TO_TOPIC .*stop its members first"),
        (Code.TOPIC_AUTHORIZATION_FAILED, "deleting offsets of group 'g' for t-1: TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_refused_offset_deletion_names_the_partition_or_topic(code: Code, message: str) -> None:
    partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=index * code) for index in (0, 1)]
    refused = OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="t", partitions=partitions)])
    with pytest.raises(KafkaAnswered, match=message):
        delete_offsets(ScriptedCluster(kafka=broker("classic", OffsetDelete=[refused])).brokers(), "g", [("t", 0), ("t", 1)])


def test_offsets_of_a_share_group_are_deleted_by_topic() -> None:
    listed = [DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=4)]
    topics = [DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=listed)]
    described = DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=topics)])
    refused = DeleteShareGroupOffsetsResponseTopic(topic_name="t", error_code=Code.GROUP_ID_NOT_FOUND, error_message="gone")
    answers = [DeleteShareGroupOffsetsResponse(), DeleteShareGroupOffsetsResponse(responses=[refused])]
    scripted = broker("share", DescribeShareGroupOffsets=[described], DeleteShareGroupOffsets=answers)
    brokers = ScriptedCluster(kafka=scripted).brokers()
    with pytest.raises(ClientError, match="the offsets of a share group are deleted by topic; give t instead of t:0"):
        plan_offset_deletion(brokers, "g", [("t", 0)])
    assert [one.committed for one in plan_offset_deletion(brokers, "g", [("t", None)])] == [4]
    delete_offsets(brokers, "g", [("t", 0)])
    name, _, request = scripted.asked[-1]
    assert (name, [topic.topic_name for topic in request.topics]) == ("DeleteShareGroupOffsets", ["t"])
    with pytest.raises(KafkaAnswered, match=r"for t: GROUP_ID_NOT_FOUND \(gone\)"):
        delete_offsets(brokers, "g", [("t", 0)])
