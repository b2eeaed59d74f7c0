"""Assigns a broker's replicas to its log directories (ReplicationControlManager.handleAssignReplicasToDirs of Kafka)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.controller import elections, policies
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import DIRECTORY_ASSIGNMENT
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError

Assigned = tuple[bytes, bytes, int]
"""A directory's id, a topic's id, and the number of a partition with a replica in the directory."""


def assign_directories(
    state: ClusterState, broker_id: int, broker_epoch: int, asked: Iterable[Assigned]
) -> Result[list[KafkaError | None]]:
    """Assign replicas to directories. The results are in the order of the request.

    Raises STALE_BROKER_EPOCH, or UNSUPPORTED_VERSION for a metadata.version before KIP-858. A directory that the broker has not
    registered has failed meanwhile: the replica in it no longer leads, and leaves the in-sync set. If the replica's previous
    directory is no longer registered (the disk was replaced), the replica has lost its data. Until the replica is in sync again it
    is neither an eligible leader replica nor the last known leader, unless it is the only replica.
    """
    if state.metadata_version < DIRECTORY_ASSIGNMENT:
        raise KafkaError(Code.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    policies.check_broker_epoch(state, broker_id, broker_epoch)
    records: list[LogRecord] = []
    answers: list[KafkaError | None] = []
    seen: set[tuple[bytes, int]] = set()
    for directory, topic_id, index in asked:
        try:
            if (topic_id, index) in seen:
                # The request lists the partition twice. The first entry's record is not replayed yet, so the second entry is
                # refused.
                raise KafkaError(Code.INVALID_REQUEST)
            record = _assigned(state, broker_id, directory, topic_id, index)
        except KafkaError as error:
            answers.append(error)
            continue
        seen.add((topic_id, index))
        answers.append(None)
        if record is not None:
            records.append(record)
    return Result(answers, records)


def _assigned(state: ClusterState, broker_id: int, directory: bytes, topic_id: bytes, index: int) -> LogRecord | None:
    topic = state.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID)
    if not 0 <= index < topic.partition_count:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    before = topic.partitions[index]
    if broker_id not in before.replicas:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
    is_online = directory in state.registrations.brokers[broker_id].directories
    isr = before.isr if is_online else tuple(replica for replica in before.isr if replica != broker_id)
    has_begun_anew = not policies.has_online_directory(state, before, broker_id) and len(before.replicas) > 1
    begun_anew = broker_id if has_begun_anew else elections.NO_BROKER
    election = elections.usual_election(state, topic)
    change = elections.change_of(
        state,
        topic,
        index,
        lambda replica: policies.is_active(state, replica) and (replica != broker_id or (is_online and not has_begun_anew)),
        isr=isr,
        directories={broker_id: directory},
        unclean_shutdown=begun_anew,
        begun_anew=begun_anew,
        election=election,
    ).build()
    return None if change is None else elections.change_record(state, change)
