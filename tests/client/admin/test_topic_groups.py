"""The groups with committed offsets for a topic, of a cluster some of whose groups cannot be read in time or at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.admin.topic_groups import LIMIT_S, MAX_ITEMS, REQUEST_S, TopicGroups, topic_groups
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.client.scripted import Answer, ScriptedBroker, ScriptedCluster, metadata

REFUSED = {"secret": Code.GROUP_AUTHORIZATION_FAILED, "moved": Code.NOT_COORDINATOR}
"""Error codes of groups."""


def offset_of(group: str, partition: int) -> int:
    """The group ``other`` has no committed offset, and the other groups have one in each even partition."""
    return -1 if group == "other" or partition % 2 else 5


def fetched(request: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = []
    for group in request.groups:
        assert group.topics is not None
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=at, committed_offset=offset_of(group.group_id, at))
                    for at in topic.partition_indexes
                ],
            )
            for topic in group.topics
        ]
        code = REFUSED.get(group.group_id, 0)
        groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=[] if code else topics, error_code=code))
    return OffsetFetchResponse(groups=groups)


def fetched_before_kip_709(request: OffsetFetchRequest) -> OffsetFetchResponse:
    assert request.topics is not None
    (topic,) = request.topics
    partitions = [
        OffsetFetchResponsePartition(partition_index=at, committed_offset=offset_of(request.group_id, at))
        for at in topic.partition_indexes
    ]
    code = REFUSED.get(request.group_id, 0)
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=topic.name, partitions=partitions)], error_code=code)


def described(request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    groups = []
    for group in request.groups:
        assert group.topics is not None
        (topic,) = group.topics
        partitions = [
            DescribeShareGroupOffsetsResponsePartition(partition_index=at, start_offset=offset_of(group.group_id, at))
            for at in topic.partitions
        ]
        topics = [DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)]
        groups.append(DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=topics))
    return DescribeShareGroupOffsetsResponse(groups=groups)


def broker(*groups: str, kind: str = "classic", fetch: Answer | Callable[[Any], Answer] = fetched, **more: Any) -> ScriptedBroker:
    listed = [ListedGroup(group_id=group, group_type=kind, group_state="Empty") for group in groups]
    answers: dict[str, Any] = {
        "Metadata": [metadata(nodes={1: "kafka", 2: "second"}, leaders={"t": [1, 2, 1]})],
        "ListGroups": [ListGroupsResponse(groups=listed)],
        "OffsetFetch": fetch if callable(fetch) else [fetch],
        "DescribeShareGroupOffsets": described,
    }
    return ScriptedBroker({**answers, **more})


def found(first: ScriptedBroker, second: ScriptedBroker | None = None, partitions: int = 3) -> TopicGroups:
    cluster = ScriptedCluster(kafka=first, second=second or broker())
    return topic_groups(cluster.brokers(), "t", range(partitions))


def counts(of: TopicGroups) -> dict[str, int]:
    return {listing.group_id: partitions for listing, partitions in of.groups}


def test_groups_of_a_topic_come_from_one_request_for_this_topic_to_each_coordinator() -> None:
    first, second = broker("a", "other", "b"), broker("c", "d", kind="share")
    result = found(first, second)
    assert (counts(result), result.unread, result.unlisted) == ({"a": 2, "b": 2, "c": 2, "d": 2}, 0, [])
    asked = [name for name in first.names() + second.names() if name not in ("ApiVersions", "Metadata", "ListGroups")]
    assert asked == ["OffsetFetch", "DescribeShareGroupOffsets"]


@pytest.mark.parametrize("is_old", [False, True])
def test_groups_whose_offsets_are_refused_are_counted(is_old: bool) -> None:
    first = broker("a", "secret", "moved", "b", fetch=fetched_before_kip_709 if is_old else fetched)
    if is_old:
        first.versions = {"OffsetFetch": (1, 7)}
    result = found(first)
    assert (counts(result), result.unread) == ({"a": 2, "b": 2}, 2)
    assert first.names().count("OffsetFetch") == (4 if is_old else 1)


@pytest.mark.parametrize("answer", [TimeoutError(), ConnectionResetError(104, "reset")])
def test_coordinator_without_an_answer_does_not_hide_the_groups_of_others(answer: BaseException) -> None:
    result = found(broker("a", "b", fetch=answer), broker("c"))
    assert (counts(result), result.unread, result.unlisted) == ({"c": 2}, 2, [])


def test_brokers_whose_groups_cannot_be_listed_are_reported() -> None:
    result = found(broker("a"), ScriptedBroker(refuses=ConnectionRefusedError(111, "Connection refused")))
    assert (counts(result), result.unread, len(result.unlisted)) == ({"a": 2}, 0, 1)
    refused = ListGroupsResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED)
    result = found(broker("a", ListGroups=[refused]))
    assert (counts(result), result.unread, len(result.unlisted)) == ({}, 0, 1)


def test_groups_that_are_not_read_in_time_are_counted() -> None:
    first = broker(*(f"g{number}" for number in range(9)))
    cluster = ScriptedCluster(kafka=first, second=broker())

    def slow(request: OffsetFetchRequest) -> OffsetFetchResponse:
        cluster.now_s += 0.9 * REQUEST_S
        return fetched(request)

    first.answers["OffsetFetch"] = slow
    brokers = cluster.brokers()
    result = topic_groups(brokers, "t", range(MAX_ITEMS // 2))
    assert (len(result.groups), result.unread) == (8, 1), (
        "each request has two groups, and four requests take longer than the limit"
    )
    assert cluster.now_s < LIMIT_S + REQUEST_S
    assert brokers.timeout_s == 10.0, "the limits end with the search"
    assert brokers.nodes()
