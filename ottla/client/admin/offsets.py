"""Finds the first and last offsets of partitions, and the offsets of timestamps (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ottla.client.cluster import BrokerConnections, BrokerNode, led_partitions
from ottla.client.errors import NO_RESULT, ClientError, check
from ottla.client.wire.connection import BrokerConnection
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.topic_partition import TopicPartition

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
    """Return an offset of each partition: the log start offset (`EARLIEST`), the end (`LATEST`), or the offset of the first record
    at or after a timestamp in ms.

    The end is the high watermark, with ``committed`` the last stable offset. The end is also returned if all records are older than
    the timestamp. A missing partition raises `UnknownTopic`, or is omitted with ``skips_missing``.
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


def offsets_by_leader(
    brokers: BrokerConnections,
    metadata: MetadataResponse,
    timestamp: int,
    *,
    committed: bool = False,
    silent: list[ClientError] | None = None,
) -> dict[TopicPartition, int]:
    """Return offsets of all partitions in ``metadata`` with one request to each leader; for other arguments see `list_offsets`.

    Partitions that have no leader, have just moved or are deleted are missing. If the list ``silent`` is given, the errors
    `NO_RESULT` of a leader are appended to it instead of raised, and the leader's partitions are missing too.
    """
    offsets: dict[TopicPartition, int] = {}
    for leader, topics in led_partitions(metadata).items():
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[
                ListOffsetsTopic(
                    name=name, partitions=[ListOffsetsPartition(partition_index=i, timestamp=timestamp) for i in indexes]
                )
                for name, indexes in topics.items()
            ],
            timeout_ms=round(1_000 * brokers.timeout_s),
        )
        try:
            what = f"asking for offsets of broker {leader.node_id}"
            answer = brokers.until_final(what, partial(_ask, brokers, leader, request))
        except NO_RESULT as error:
            if silent is None:
                raise
            silent.append(error)
            continue
        for answered in answer.topics:
            offsets.update({(answered.name, p.partition_index): p.offset for p in answered.partitions if not p.error_code})
    return offsets


def _ask(brokers: BrokerConnections, node: BrokerNode, request: Any) -> Any:
    return brokers.ask(brokers.node(node), request)


def ranges(brokers: BrokerConnections, topic: str, *, committed: bool = False) -> dict[int, tuple[int, int]]:
    """Return log start offset and end of each partition. The end is the high watermark, with ``committed`` the last stable
    offset."""
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
