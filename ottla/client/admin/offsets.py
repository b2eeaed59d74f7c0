"""Finds the first and last offsets of partitions, and the offsets of timestamps (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import check
from ottla.client.wire.connection import BrokerConnection
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST: Final = -1
EARLIEST: Final = -2
_NONE: Final = -1


def list_offsets(
    brokers: BrokerConnections,
    topic: str,
    indexes: Iterable[int],
    timestamp: int,
    *,
    committed: bool = False,
    skips_missing: bool = False,
) -> dict[int, int]:
    """Return offsets by partition: of `EARLIEST`, of `LATEST`, or of the first record with at least a timestamp in ms.

    `LATEST` is the high watermark, with ``committed`` the last stable offset. The offset of `LATEST` is also returned if all
    records are older than the timestamp. A partition that does not exist is omitted with ``skips_missing``, and else raises
    `UnknownTopic`.
    """
    wanted = list(indexes)

    def attempt() -> dict[int, int]:
        leaders = brokers.leaders(topic, wanted, skips_missing=skips_missing)
        offsets: dict[int, int] = {}
        for connection, mine in by_leader(leaders):
            partitions = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in mine]
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(committed),
                topics=[ListOffsetsTopic(name=topic, partitions=partitions)],
                timeout_ms=round(1_000 * brokers.timeout_s),
            )
            for answered in brokers.ask(connection, request).topics[0].partitions:
                check(f"asking for offsets of {topic}-{answered.partition_index}", answered.error_code)
                offsets[answered.partition_index] = answered.offset
        return offsets

    what = f"asking for offsets of {topic!r}"
    offsets = brokers.until_final(what, attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))
    missing = [index for index, offset in offsets.items() if offset == _NONE]
    if missing and timestamp >= 0:
        offsets.update(list_offsets(brokers, topic, missing, LATEST, committed=committed))
    return offsets


def ranges(brokers: BrokerConnections, topic: str, *, committed: bool = False) -> dict[int, tuple[int, int]]:
    """Return log start offset and high watermark of each partition, with ``committed`` the last stable offset as end."""
    indexes = brokers.partitions(topic)
    starts = list_offsets(brokers, topic, indexes, EARLIEST)
    ends = list_offsets(brokers, topic, indexes, LATEST, committed=committed)
    return {index: (starts[index], ends[index]) for index in indexes}


def by_leader(leaders: dict[int, BrokerConnection]) -> list[tuple[BrokerConnection, list[int]]]:
    """Group partitions by connection, so that each leader gets one request."""
    groups: dict[int, tuple[BrokerConnection, list[int]]] = {}
    for index, connection in leaders.items():
        groups.setdefault(id(connection), (connection, []))[1].append(index)
    return list(groups.values())
