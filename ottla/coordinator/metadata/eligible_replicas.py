"""Clears eligible leader replicas when ``min.insync.replicas`` changes (KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import changed
from ottla.coordinator.metadata.topics import SharedPartitions, Topic
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError

ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"


def cleared(topics: Mapping[str, Topic], name: str) -> list[LogRecord]:
    """Return the record that clears the eligible leader replicas of a topic, or of all topics if ``name`` is empty; no record if
    there are none.

    A replica is eligible because no record was committed without it. A changed ``min.insync.replicas`` ends this guarantee
    (ConfigurationControlManager.createClearElrRecordsAsNeeded).
    """
    named = topics.values() if not name else [topics[name]] if name in topics else []
    if not any(partition.elr or partition.last_known_elr for topic in named for partition in topic.partitions):
        return []
    # The record's module is imported here, because a cluster of one broker has no such records and starts without it.
    from ottla.protocol.messages import clear_elr_record

    return [metadata_record(clear_elr_record, clear_elr_record.ClearElrRecord(topic_name=name))]


def replay(topics: Mapping[str, Topic], shared: SharedPartitions, message: Any) -> None:
    """Apply a ClearElrRecord. Raises `DecodeError` for an unknown topic."""
    for topic in [topics.get(message.topic_name)] if message.topic_name else topics.values():
        if topic is None:
            raise DecodeError(f"the record clears eligible leader replicas of topic {message.topic_name}, which does not exist")
        for index, partition in enumerate(topic.partitions):
            if partition.elr or partition.last_known_elr:
                topic.partitions[index] = shared.of(changed(partition, elr=(), last_known_elr=()))
