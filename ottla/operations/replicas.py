"""Finds the logs of a directory that have replicas on other brokers, as far as the directory shows.

Such a log must not be changed alone: its followers, or its leader, would have other records at the same offsets, which no broker
detects.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.kafka_metadata import read_metadata
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryError, read_identity

NAMED = 3
"""Maximum number of logs that an error message names."""


def check_is_alone(state: ClusterState, directory: str) -> None:
    """Raise `DirectoryError` if ``state``, the metadata of the directory, is that of a cluster with several brokers."""
    if not state.is_alone:
        raise DirectoryError(
            f"{directory} belongs to a cluster of several brokers, whose metadata it shares;"
            f" import its topics into another directory with ottla adopt --from {directory} --data-dir OTHER"
        )


def check_only_replicas(fs: Filesystem, directory: str, logs: Iterable[TopicPartition]) -> None:
    """Raise `DirectoryError` if one of the logs has, or may have, a replica on another broker."""
    identity = read_identity(fs, directory)
    if identity is None:
        return
    replicated = sorted(logs)
    whose = (
        f"{directory} belongs to a broker with a remote controller, and has no metadata that says which logs have other replicas"
    )
    if fs.is_dir(f"{directory}/{METADATA_DIRECTORY}"):
        state = read_metadata(fs, directory, []).state
        # A log of an unknown topic counts as replicated, because a broker's copy of the metadata may lack the newest topics.
        is_copy = identity.node_id in state.registrations.brokers
        replicated = [where for where in replicated if _is_replicated(state, *where, is_copy=is_copy)]
        more = "" if len(replicated) <= NAMED else f" and {len(replicated) - NAMED} more"
        names = ", ".join(f"{topic}-{index}" for topic, index in replicated[:NAMED])
        whose = f"other brokers have replicas of {names}{more}"
    if replicated:
        topic, index = replicated[0]
        raise DirectoryError(
            f"{whose}. The repaired log would differ from the other replicas, and no broker would notice. If another"
            f" replica is in sync (ottla topic describe), move {directory}/{topic}-{index} away and start the broker, which then"
            " copies the log from its leader; if there is no other replica, add --only-replica"
        )


def _is_replicated(state: ClusterState, name: str, index: int, *, is_copy: bool) -> bool:
    topic = state.topics.get(name)
    if topic is None or index >= topic.partition_count:
        return is_copy
    return len(topic.partitions[index].replicas) > 1
