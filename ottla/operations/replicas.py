"""Which logs of a directory have replicas on other brokers, as far as the directory itself says.

Such a log must not be changed by itself. Its followers, or its leader, would have other records at the same offsets, and no broker
compares them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.metadata.topics import Topic
from ottla.operations.kafka_metadata import read_metadata
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryError, read_identity

NAMED = 3
"""How many logs an error names."""


def check_only_replicas(fs: Filesystem, directory: str, logs: Iterable[TopicPartition]) -> None:
    """Raises `DirectoryError` where one of the logs has, or may have, a replica on another broker."""
    if read_identity(fs, directory) is None:
        return
    replicated = sorted(logs)
    whose = f"{directory} belongs to a broker whose controller is elsewhere, and does not say which logs have other replicas"
    if fs.is_dir(f"{directory}/{METADATA_DIRECTORY}"):
        topics = read_metadata(fs, directory, []).state.topics
        replicated = [where for where in replicated if _is_replicated(topics.get(where[0]), where[1])]
        more = "" if len(replicated) <= NAMED else f" and {len(replicated) - NAMED} more"
        names = ", ".join(f"{topic}-{index}" for topic, index in replicated[:NAMED])
        whose = f"other brokers have replicas of {names}{more}"
    if replicated:
        topic, index = replicated[0]
        raise DirectoryError(
            f"{whose}. What is put in place of damage would differ from the other replicas, and no broker would notice. If another"
            f" replica is in sync (ottla topic describe), move {directory}/{topic}-{index} away and start the broker, which then"
            " copies the log from its leader; if there is no other replica, add --only-replica"
        )


def _is_replicated(topic: Topic | None, index: int) -> bool:
    return topic is not None and index < topic.partition_count and len(topic.partitions[index].replicas) > 1
