"""Scenario commands that send an admin client's requests to several brokers: leader elections, reassignments, new topics."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.scenarios.several_verbs import numbers
from tests.scenarios.verbs import verb
from tests.scenarios.world import TIMEOUT_MS, Ask, Words, World, name_of

PREFERRED, UNCLEAN = 0, 1


def _coded(code: int, message: str | None) -> str:
    return f"{name_of(code)}{f' {message}' if message else ''}"


def _unprefixed(world: World, text: str) -> str:
    return text.replace(world.real("x")[:-1], "")


@verb
def elect(world: World, words: Words) -> Ask:
    """Send ElectLeaders for one partition. Command: ``elect t [unclean] [v=2]``."""
    wanted = [TopicPartitions(topic=name, partitions=[index]) for name, index in [world.partition(words.plain[0])]]
    request = ElectLeadersRequest(
        election_type=UNCLEAN if words.has("unclean") else PREFERRED, topic_partitions=wanted, timeout_ms=TIMEOUT_MS
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return f"whole request: {name_of(answer.error_code)}"
        results = [p for t in answer.replica_election_results for p in t.partition_result]
        return _unprefixed(world, " | ".join(_coded(p.error_code, p.error_message) for p in results))

    return Ask(request, words.version(2), show)


@verb
def reassign(world: World, words: Words) -> Ask:
    """Send AlterPartitionReassignments for one partition.

    Command: ``reassign t 2,3|none|nobody [fixed] [v=1]``. ``none`` cancels a reassignment, ``nobody`` is an empty list of replicas,
    and ``fixed`` forbids another replication factor.
    """
    name, index = world.partition(words.plain[0])
    given = words.plain[1]
    ids = None if given == "none" else [] if given == "nobody" else [int(broker) for broker in given.split(",")]
    wanted = ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=ids)])
    request = AlterPartitionReassignmentsRequest(
        topics=[wanted], timeout_ms=TIMEOUT_MS, allow_replication_factor_change=not words.has("fixed")
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return f"whole request: {_coded(answer.error_code, answer.error_message)}"
        p = answer.responses[0].partitions[0]
        return _unprefixed(world, _coded(p.error_code, p.error_message))

    return Ask(request, words.version(1), show)


@verb
def reassignments(world: World, words: Words) -> Ask:
    """Show the replicas of a partition by ListPartitionReassignments, including those being added or removed.

    Command: ``reassignments t``.
    """
    name, index = world.partition(words.plain[0])
    asked = ListPartitionReassignmentsTopics(name=name, partition_indexes=[index])
    request = ListPartitionReassignmentsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)

    def show(answer: Any) -> str:
        if answer.error_code:
            return _coded(answer.error_code, answer.error_message)
        moved = [p for t in answer.topics for p in t.partitions]
        lists = [
            f"{numbers(p.replicas)} adding {numbers(p.adding_replicas)} removing {numbers(p.removing_replicas)}" for p in moved
        ]
        return "NONE " + (" | ".join(lists) or "none")

    return Ask(request, 0, show)


@verb
def assign(world: World, words: Words) -> Ask:
    """Send CreateTopics with replicas by partition, or with ``count`` and ``factor``.

    Command: ``assign t 0:1,2/1:2,3 [count=] [factor=]``.
    """
    lists = [part.split(":") for part in (words.plain[1].split("/") if len(words.plain) > 1 else [])]
    assignments = [
        CreatableReplicaAssignment(partition_index=int(index), broker_ids=[int(broker) for broker in ids.split(",") if broker])
        for index, ids in lists
    ]
    wanted = CreatableTopic(
        name=world.real(words.plain[0]),
        num_partitions=words.number("count", -1),
        replication_factor=words.number("factor", -1),
        assignments=assignments,
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)

    def show(answer: Any) -> str:
        t = answer.topics[0]
        made = f" {t.num_partitions} partitions of {t.replication_factor} replicas" if not t.error_code else ""
        return _unprefixed(world, _coded(t.error_code, t.error_message)) + made

    return Ask(request, None, show)


@verb
def grow(world: World, words: Words) -> Ask:
    """Send CreatePartitions with the new partition count, and with the replicas of each new partition.

    Command: ``grow t 2 1,2/2,3``.
    """
    lists = [[int(broker) for broker in part.split(",")] for part in words.plain[2].split("/")]
    wanted = CreatePartitionsTopic(
        name=world.real(words.plain[0]),
        count=int(words.plain[1]),
        assignments=[CreatePartitionsAssignment(ids) for ids in lists],
    )
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
    return Ask(request, 3, lambda a: _unprefixed(world, _coded(a.results[0].error_code, a.results[0].error_message)))


@verb
def metadata(world: World, words: Words) -> Ask:
    """Show the Metadata response about a partition, including its error and its offline replicas.

    Command: ``metadata t [v=12]``.
    """
    name, index = world.partition(words.plain[0])
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

    def show(answer: Any) -> str:
        topic = answer.topics[0]
        if topic.error_code:
            return name_of(topic.error_code)
        p = next(p for p in topic.partitions if p.partition_index == index)
        leader = "none" if p.leader_id < 0 else str(p.leader_id)
        # The response is shown without a retry, even if the partition has an error.
        return (
            f"partition {name_of(p.error_code)} leader={leader} e{p.leader_epoch} of={numbers(p.replica_nodes)}"
            f" isr={numbers(sorted(p.isr_nodes))} offline={numbers(sorted(p.offline_replicas))}"
        )

    return Ask(request, words.version(12), show)


@verb
def brokers(world: World, words: Words) -> Ask:
    """Show brokers and their racks by DescribeCluster; ``fenced`` includes fenced brokers. Command: ``brokers [fenced]``."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=words.has("fenced"), endpoint_type=1
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        return " ".join(f"{b.broker_id}@{b.rack}{' fenced' if b.is_fenced else ''}" for b in sorted(answer.brokers, key=_id))

    return Ask(request, 2, show)


def _id(broker: Any) -> int:
    number: int = broker.broker_id
    return number
