"""ConsumerProtocolAssignment: generated from protocol/schemas/consumer_protocol_assignment.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    bytes_length,
    length,
    read_length,
    read_nullable_bytes,
    read_string,
    string,
)


RECORD_TYPE = -1
MIN_VERSION = 0
MAX_VERSION = 3

class TopicPartition(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[int] = []


def _read_topic_partition(buf: Buffer, pos: int, version: int) -> tuple[TopicPartition, int]:
    topic, pos = read_string(buf, pos)
    _count, pos = read_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    return TopicPartition(topic, partitions), pos


def _write_topic_partition(put: Put, m: TopicPartition, version: int) -> None:
    put(string(m.topic))
    put(length(len(m.partitions)))
    put(pack(f">{len(m.partitions)}i", *m.partitions))


class ConsumerProtocolAssignment(msgspec.Struct, gc=False):
    assigned_partitions: list[TopicPartition] = []
    user_data: bytes | None = None


def _read_consumer_protocol_assignment(buf: Buffer, pos: int, version: int) -> tuple[ConsumerProtocolAssignment, int]:
    _count, pos = read_length(buf, pos)
    assigned_partitions: list[TopicPartition] = []
    for _ in range(_count):
        _assigned_partitions_item, pos = _read_topic_partition(buf, pos, version)
        assigned_partitions.append(_assigned_partitions_item)
    user_data, pos = read_nullable_bytes(buf, pos)
    return ConsumerProtocolAssignment(assigned_partitions, user_data), pos


def _write_consumer_protocol_assignment(put: Put, m: ConsumerProtocolAssignment, version: int) -> None:
    put(length(len(m.assigned_partitions)))
    for item_assigned_partitions in m.assigned_partitions:
        _write_topic_partition(put, item_assigned_partitions, version)
    put(bytes_length(m.user_data))
    if m.user_data is not None:
        put(m.user_data)


decode = _read_consumer_protocol_assignment
encode = _write_consumer_protocol_assignment
