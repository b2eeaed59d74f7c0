"""Moves partitions to other brokers: starts, cancels and lists reassignments (ReplicationControlManager, KIP-455).

During a reassignment a partition has its old and new replicas. It ends when all new replicas are in sync (`elections`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.controller import elections, policies
from ottla.coordinator.controller.placement import check_assignment
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord

Answers = dict[tuple[str, int], KafkaError | None]


def reassign(state: ClusterState, asked: Mapping[tuple[str, int], tuple[int, ...] | None]) -> Result[Answers]:
    """Start or cancel reassignments. ``asked``: the new replicas of each partition, or None to cancel its reassignment.

    The response has for each partition None or an error: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS or
    INVALID_REPLICA_ASSIGNMENT.
    """
    records: list[LogRecord] = []
    answers: Answers = {}
    for (name, index), replicas in asked.items():
        try:
            topic = _topic_with(state, name, index)
            change = _cancelled(state, topic, index) if replicas is None else _begun(state, topic, index, replicas)
        except KafkaError as error:
            answers[name, index] = error
            continue
        answers[name, index] = None
        if change is not None:
            records.append(elections.change_record(state, change))
    return Result(answers, records)


def reassigning(state: ClusterState, asked: Iterable[tuple[str, int]] | None) -> dict[tuple[str, int], PartitionRegistration]:
    """Return the partitions with a reassignment, among ``asked`` or among all partitions."""
    if asked is None:
        asked = [(topic.name, index) for topic in state.topics.values() for index in range(topic.partition_count)]
    moving = {}
    for name, index in asked:
        topic = state.topics.get(name)
        if topic is not None and 0 <= index < topic.partition_count and topic.partitions[index].is_reassigning:
            moving[name, index] = topic.partitions[index]
    return moving


def _topic_with(state: ClusterState, name: str, index: int) -> Topic:
    topic = state.topics.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= index < topic.partition_count:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic


def _begun(state: ClusterState, topic: Topic, index: int, replicas: tuple[int, ...]) -> PartitionChangeRecord | None:
    check_assignment(state, replicas)
    before = topic.partitions[index]
    removing = tuple(sorted(set(before.replicas) - set(replicas)))
    adding = tuple(sorted(set(replicas) - set(before.replicas)))
    return elections.change_of(
        state,
        topic,
        index,
        replicas=replicas + removing,
        removing=removing or before.removing_replicas,
        adding=adding or before.adding_replicas,
    ).build()


def _cancelled(state: ClusterState, topic: Topic, index: int) -> PartitionChangeRecord | None:
    before = topic.partitions[index]
    if not before.is_reassigning:
        raise KafkaError(Code.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(r for r in before.replicas if r not in before.adding_replicas)
    isr = tuple(r for r in before.isr if r not in before.adding_replicas)
    if not isr:
        if not replicas:
            reason = "Invalid replica assignment: addingReplicas contains all replicas."
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, reason)
        if not policies.allows_unclean_elections(state, topic.name):
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean leader "
                "election.",
            )
        isr = replicas[:1]
    election = elections.usual_election(state, topic)
    return elections.change_of(state, topic, index, isr=isr, replicas=replicas, removing=(), adding=(), election=election).build()
