"""The reason why a partition has no leader, and the remedy shown to an operator."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.admin.leaderless import LeaderlessPartition, leaderless
from ottla.client.admin.leadership import elect_leader
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

ELECT = "ottla topic elect --unclean t:0 elects another replica, which may lack committed records"


def partition(**fields: list[int]) -> LeaderlessPartition:
    own = {"replicas": [1, 2, 3], "complete": [], "last_leaders": [], "offline": []}
    return LeaderlessPartition(topic="t", partition=0, **{**own, **fields})


@pytest.mark.parametrize(
    ("one", "reason", "remedy"),
    [
        (partition(offline=[1, 2, 3]), "no broker with a replica is running", "start brokers 1, 2 or 3"),
        (partition(offline=[1, 2, 3], complete=[2]), "no broker with a replica is running", "start broker 2"),
        (partition(offline=[1, 2, 3], last_leaders=[3]), "no broker with a replica is running", "start broker 3"),
        (
            partition(offline=[2], complete=[2]),
            "only broker 2 had every committed record, and is not running",
            f"start broker 2; or {ELECT}",
        ),
        (
            partition(offline=[2, 3], complete=[2, 3], last_leaders=[1]),
            "only brokers 2 and 3 had every committed record, and none of them is running",
            f"start brokers 2 or 3; or {ELECT}",
        ),
        (
            partition(offline=[3], last_leaders=[3]),
            "no replica is known to have every committed record, and the last leader, broker 3, is not running",
            f"start broker 3; or {ELECT}",
        ),
        (partition(offline=[3]), "no replica is known to have every committed record", ELECT),
        (partition(last_leaders=[1, 2]), "no replica is known to have every committed record", ELECT),
        (partition(offline=[1], complete=[1, 2]), "an election is in progress", "wait"),
        (partition(last_leaders=[2]), "an election is in progress", "wait"),
    ],
)
def test_description_of_a_leaderless_partition_has_reason_and_remedy(one: LeaderlessPartition, reason: str, remedy: str) -> None:
    assert (one.reason, one.remedy) == (reason, remedy)


def test_remedy_for_a_leaderless_partition_quotes_the_topic_for_a_shell() -> None:
    one = LeaderlessPartition(topic="a'b", partition=7, replicas=[1, 2], complete=[], last_leaders=[], offline=[])
    assert """ottla topic elect --unclean 'a'"'"'b:7' elects""" in one.remedy


def topic(name: str, *leaders: int) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            error_code=Code.NONE if leader >= 0 else Code.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=leader,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[1],
        )
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(error_code=0, name=name, partitions=partitions)


def described(index: int, leader: int = -1) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader,
        replica_nodes=[1, 2],
        isr_nodes=[],
        eligible_leader_replicas=[1],
        last_known_elr=[2],
        offline_replicas=[1, 2],
    )


def page(*partitions: DescribeTopicPartitionsResponsePartition, then: int | None = None) -> DescribeTopicPartitionsResponse:
    cursor = None if then is None else Cursor(topic_name="b", partition_index=then)
    topics = [DescribeTopicPartitionsResponseTopic(error_code=0, name="b", partitions=list(partitions))]
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def answers(*topics: MetadataResponseTopic) -> dict[str, Any]:
    return {"Metadata": [MetadataResponse(topics=list(topics))]}


def test_leaderless_partitions_are_described_page_by_page() -> None:
    asked: list[Cursor | None] = []

    def describe(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        assert [t.name for t in request.topics] == ["b"]
        asked.append(request.cursor)
        return page(described(0), described(1, leader=1), then=2) if len(asked) == 1 else page(described(2), described(3, leader=2))

    broker = ScriptedBroker(answers={**answers(topic("b", -1, 1, -1, -1), topic("a", 1)), "DescribeTopicPartitions": describe})
    found = leaderless(ScriptedCluster(kafka=broker).brokers())
    assert [(p.topic, p.partition) for p in found] == [("b", 0), ("b", 2)], "partition 3 has a leader by the time of its page"
    assert (found[0].complete, found[0].last_leaders, found[0].offline) == ([1], [2], [1, 2])
    assert [cursor and cursor.partition_index for cursor in asked] == [None, 2]


def test_search_for_leaderless_partitions_sends_only_metadata_requests_to_an_old_broker() -> None:
    broker = ScriptedBroker(answers=answers(topic("b", 1, -1)), versions={"DescribeTopicPartitions": (0, -1)})
    (found,) = leaderless(ScriptedCluster(kafka=broker).brokers())
    assert found == LeaderlessPartition(topic="b", partition=1, replicas=[1, 2], complete=[1], last_leaders=[], offline=[1])


@pytest.mark.parametrize("is_unclean", [False, True])
def test_elect_leader_requests_a_preferred_or_an_unclean_election(is_unclean: bool) -> None:
    types: list[int] = []

    def elect(request: ElectLeadersRequest) -> ElectLeadersResponse:
        types.append(request.election_type)
        result = PartitionResult(partition_id=0, error_code=Code.ELECTION_NOT_NEEDED, error_message="not needed")
        return ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(topic="t", partition_result=[result])])

    broker = ScriptedBroker(answers={"Metadata": [metadata(nodes={1: "kafka"}, leaders={"t": [1]})], "ElectLeaders": elect})
    elect_leader(ScriptedCluster(kafka=broker).brokers(), "t", 0, is_unclean=is_unclean)
    assert types == [int(is_unclean)]
