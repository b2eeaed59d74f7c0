"""Deletes the oldest records of partitions (DeleteRecords, KIP-107)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.offsets import EARLIEST, LATEST, by_leader, list_offsets
from ottla.client.admin.places import Place
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import check
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


@dataclass(slots=True, frozen=True)
class PlannedDeletion:
    """A partition with its log start offset and end. ``before`` is the first offset to keep, which may be outside of the log."""

    partition: int
    start: int
    end: int
    before: int


def planned_deletions(brokers: BrokerConnections, topic: str, indexes: Iterable[int], before: Place) -> list[PlannedDeletion]:
    """Return for each partition the planned deletion of the records before a position."""
    indexes = list(indexes)
    starts = list_offsets(brokers, topic, indexes, EARLIEST)
    ends = list_offsets(brokers, topic, indexes, LATEST)
    offsets = before.offsets(brokers, topic, indexes)
    return [PlannedDeletion(partition=i, start=starts[i], end=ends[i], before=offsets[i]) for i in indexes]


def delete_records(brokers: BrokerConnections, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
    """Delete the records before an offset in each partition. Returns the new log start offsets by partition.

    Each leader gets one request. Raises `KafkaAnswered`, for instance for an offset after the high watermark or for a topic that is
    only compacted; other partitions' records may already be deleted.
    """
    what = f"deleting records of topic {topic!r}"

    def attempt() -> dict[int, int]:
        starts: dict[int, int] = {}
        for connection, mine in by_leader(brokers.leaders(topic, offsets)):
            partitions = [DeleteRecordsPartition(partition_index=index, offset=offsets[index]) for index in mine]
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=round(1_000 * brokers.timeout_s)
            )
            for answered in brokers.ask(connection, request).topics[0].partitions:
                check(f"deleting records of {topic}-{answered.partition_index}", answered.error_code)
                starts[answered.partition_index] = answered.low_watermark
        return starts

    return brokers.until_final(what, attempt)
