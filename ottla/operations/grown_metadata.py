"""The metadata of the cluster that one broker becomes: its topics, on broker 1, with additional replicas.

Topic ids, configs, features, quotas, credentials, ACLs and the next producer id stay the same. Leader epochs increase, so that
clients notice the cluster's leaders, and the logs show which batches the new leaders appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ottla.coordinator.metadata.cluster import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, ClusterState
from ottla.coordinator.metadata.metadata_records import DIRECTORY_ASSIGNMENT
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord
from ottla.operations.partition_directories import KRAFT_VERSION
from ottla.protocol.topic_partition import TopicPartition

BROKER_ID = 1
"""Id of the broker that gets the single broker's data."""


def grown_records(
    state: ClusterState,
    directory_ids: Sequence[bytes],
    replication_factor: int,
    epochs_in_logs: Mapping[TopicPartition, int],
    next_producer_id: int,
) -> list[LogRecord]:
    """Return the records of a new controller's log. ``state`` is the metadata of the one broker, and is changed.

    ``directory_ids`` are the ids of the directories of brokers 1, 2 and so on. ``epochs_in_logs`` has the newest leader epoch of
    each log, which after a power cut may be newer than the epoch in the metadata.
    """
    number = 0
    for topic in state.topics.values():
        for index, before in enumerate(topic.partitions):
            epoch = max(before.leader_epoch, epochs_in_logs.get((topic.name, index), 0)) + 1
            replicas = replicas_of(number, len(directory_ids), replication_factor)
            directories = tuple(directory_ids[broker - 1] for broker in replicas)
            knows_directories = state.metadata_version >= DIRECTORY_ASSIGNMENT
            topic.partitions[index] = _grown(before, replicas, directories if knows_directories else (), epoch)
            number += 1
    _rename_broker(state)
    state.node_id = BROKER_ID
    state.next_producer_id = max(state.next_producer_id, next_producer_id)
    return state.snapshot(without_features={KRAFT_VERSION})


def _grown(
    before: PartitionRegistration, replicas: tuple[int, ...], directories: tuple[bytes, ...], leader_epoch: int
) -> PartitionRegistration:
    """Return a partition whose data only broker 1 has. The other replicas join the in-sync replicas after copying the data."""
    return msgspec.structs.replace(
        before,
        replicas=replicas,
        isr=(BROKER_ID,),
        leader=BROKER_ID,
        leader_epoch=leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        directories=directories,
    )


def replicas_of(number: int, broker_count: int, replication_factor: int) -> tuple[int, ...]:
    """Return the replicas of a partition; ``number`` counts the partitions of all topics.

    Broker 1, which has all data, is always a replica. The first replica is the preferred leader, and each broker is the preferred
    leader of about the same number of partitions.
    """
    if replication_factor == 1:
        return (BROKER_ID,)
    others = list(range(BROKER_ID + 1, broker_count + 1))
    turn, share = divmod(number, broker_count)
    if share == 0:
        at = turn * (replication_factor - 1)
        return BROKER_ID, *(others[(at + n) % len(others)] for n in range(replication_factor - 1))
    at = share - 1
    followers = (others[(at + turn + n) % len(others)] for n in range(len(others)))
    rest = [broker for broker in followers if broker != others[at]][: replication_factor - 2]
    return others[at], BROKER_ID, *rest


def _rename_broker(state: ClusterState) -> None:
    for kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        own = state.configs.pop((kind, str(state.node_id)), None)
        if own:
            state.configs.setdefault((kind, str(BROKER_ID)), {}).update(own)
