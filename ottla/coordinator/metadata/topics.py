"""A topic of the cluster's metadata. Equal partitions share one object and are encoded once, to save memory and time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ottla.coordinator.metadata.metadata_records import record_version
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages import partition_record

MAX_PARTITIONS_PER_TOPIC = 10_000
REGISTRATIONS_SHARED = 1_000
"""Maximum number of cached partition registrations. Equal registrations share one object."""

_FIRST_PARTITION = bytes(4)


class Topic(msgspec.Struct):
    name: str
    topic_id: bytes
    partitions: list[PartitionRegistration] = msgspec.field(default_factory=list)

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class SharedPartitions:
    """Returns one object for equal registrations, to save memory."""

    def __init__(self) -> None:
        self._known: dict[PartitionRegistration, PartitionRegistration] = {}

    def of(self, partition: PartitionRegistration) -> PartitionRegistration:
        """Return a registration that equals ``partition``, possibly shared with other partitions."""
        if len(self._known) >= REGISTRATIONS_SHARED:
            self._known.clear()
        return self._known.setdefault(partition, partition)


def check_partition_count(count: int) -> None:
    """Raise INVALID_PARTITIONS or POLICY_VIOLATION for a number of partitions that no topic may have."""
    if count <= 0:
        raise KafkaError(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if count > MAX_PARTITIONS_PER_TOPIC:
        raise KafkaError(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def new_partition_records(
    topic_id: bytes, first: int, partitions: Sequence[PartitionRegistration], metadata_version: int
) -> list[LogRecord]:
    """Return the records of new partitions. Equal partitions differ only in their number, so one record is encoded and copied."""
    version = record_version(partition_record, metadata_version)
    around: dict[PartitionRegistration, tuple[bytes, bytes]] = {}
    records = []
    last: PartitionRegistration | None = None
    head = tail = b""
    for index, partition in enumerate(partitions, first):
        if partition is not last:
            last = partition
            if partition not in around:
                raw = partition.to_record(topic_id, 0, version).value or b""
                at = raw.index(_FIRST_PARTITION + topic_id)
                around[partition] = raw[:at], raw[at + len(_FIRST_PARTITION) :]
            head, tail = around[partition]
        records.append(LogRecord(None, head + index.to_bytes(4, "big") + tail))
    return records
