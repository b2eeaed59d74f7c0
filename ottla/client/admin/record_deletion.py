"""Deletes the oldest records of partitions (DeleteRecords, KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin.offsets import by_leader
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import check
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


def delete_records(brokers: BrokerConnections, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
    """Delete the records before an offset in each partition. Returns the new log start offsets by partition.

    Partitions of one broker are deleted by one request. Raises `KafkaAnswered`, for instance for an offset after the high watermark
    or for a topic that is only compacted; records of other partitions may be deleted then.
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
