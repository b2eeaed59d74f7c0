"""Clears eligible leader replicas when ``min.insync.replicas`` changes (KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import LogRecord

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
    # Imported here, because a cluster of one broker has no such records and starts without the module.
    from ottla.protocol.messages import clear_elr_record

    return [metadata_record(clear_elr_record, clear_elr_record.ClearElrRecord(topic_name=name))]
