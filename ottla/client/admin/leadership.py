"""Finds, moves and elects the leader of a partition."""

from __future__ import annotations

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import KafkaAnswered, UnknownTopic, check
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.metadata import MetadataResponsePartition

PREFERRED, UNCLEAN = 0, 1
"""Election types of ElectLeaders."""


def described(brokers: BrokerConnections, topic: str, index: int) -> MetadataResponsePartition:
    """Return the metadata of a partition, which may have no leader. Raises `UnknownTopic`."""
    metadata = brokers.until_final(f"looking for {topic}-{index}", lambda: brokers.metadata([topic]))
    for partition in brokers.topic_of(metadata, topic).partitions:
        if partition.partition_index == index:
            return partition
    raise UnknownTopic(f"unknown partition {index} of topic {topic!r}", Code.UNKNOWN_TOPIC_OR_PARTITION)


def move_leader(brokers: BrokerConnections, topic: str, index: int, to: int) -> None:
    """Make the replica on broker ``to`` the preferred leader, and elect it. Raises `KafkaAnswered`.

    The response to ElectLeaders may come before all brokers know the new leader; see `wait_for_leader`.
    """
    what = f"moving the leader of {topic}-{index} to broker {to}"

    def attempt() -> None:
        partition = described(brokers, topic, index)
        if to not in partition.replica_nodes:
            raise KafkaAnswered(what, Code.INVALID_REPLICA_ASSIGNMENT, f"broker {to} has no replica of the partition")
        others = [replica for replica in partition.replica_nodes if replica != to]
        reassigned = ReassignableTopic(
            name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=[to, *others])]
        )
        answer = brokers.ask(brokers.controller(), AlterPartitionReassignmentsRequest(topics=[reassigned]))
        check(what, answer.error_code, answer.error_message)
        result = answer.responses[0].partitions[0]
        check(what, result.error_code, result.error_message)
        _elect(brokers, what, topic, index, PREFERRED)

    brokers.until_final(what, attempt)


def wait_for_leader(brokers: BrokerConnections, topic: str, index: int, to: int) -> None:
    """Wait until broker ``to`` leads the partition. Raises `KafkaAnswered` after the client's timeout."""
    what = f"waiting for broker {to} to lead {topic}-{index}"

    def attempt() -> None:
        leader = described(brokers, topic, index).leader_id
        if leader != to:
            raise KafkaAnswered(what, Code.LEADER_NOT_AVAILABLE, f"broker {leader} still leads the partition")

    brokers.until_final(what, attempt)


def elect_leader(brokers: BrokerConnections, topic: str, index: int, *, is_unclean: bool = False) -> None:
    """Elect a partition's preferred leader. Raises `UnknownTopic` and `KafkaAnswered`.

    With ``is_unclean`` any running replica of a leaderless partition is elected, even if this replica lacks committed records.
    """
    what = f"electing a leader of {topic}-{index}"
    kind = UNCLEAN if is_unclean else PREFERRED
    brokers.until_final(what, lambda: _elect(brokers, what, topic, index, kind))


def _elect(brokers: BrokerConnections, what: str, topic: str, index: int, election_type: int) -> None:
    asked = TopicPartitions(topic=topic, partitions=[index])
    answer = brokers.ask(brokers.controller(), ElectLeadersRequest(election_type=election_type, topic_partitions=[asked]))
    check(what, answer.error_code)
    for result in answer.replica_election_results[0].partition_result:
        if result.error_code != Code.ELECTION_NOT_NEEDED:
            check(what, result.error_code, result.error_message)
