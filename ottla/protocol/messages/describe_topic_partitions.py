"""DescribeTopicPartitions: generated from protocol/schemas/describe_topic_partitions.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_B_ = _Struct(">16s?")
_fmt_h = _Struct(">h")
_fmt_hiii = _Struct(">hiii")
_fmt_i = _Struct(">i")

API_KEY = 75

class TopicRequest(msgspec.Struct, gc=False):
    name: str = ""


def _read_topic_request(buf: Buffer, pos: int, version: int) -> tuple[TopicRequest, int]:
    name, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicRequest(name), pos


def _write_topic_request(put: Put, m: TopicRequest, version: int) -> None:
    put(compact_string(m.name))
    put(b"\0")


class Cursor(msgspec.Struct, gc=False):
    topic_name: str = ""
    partition_index: int = 0


def _read_cursor(buf: Buffer, pos: int, version: int) -> tuple[Cursor, int]:
    topic_name, pos = read_compact_string(buf, pos)
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Cursor(topic_name, partition_index), pos


def _write_cursor(put: Put, m: Cursor, version: int) -> None:
    put(compact_string(m.topic_name))
    put(_fmt_i.pack(m.partition_index))
    put(b"\0")


class DescribeTopicPartitionsRequest(msgspec.Struct, gc=False):
    topics: list[TopicRequest] = []
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


def _read_describe_topic_partitions_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeTopicPartitionsRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicRequest] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_request(buf, pos, version)
        topics.append(_topics_item)
    (response_partition_limit,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    cursor: Cursor | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        cursor, pos = _read_cursor(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeTopicPartitionsRequest(topics, response_partition_limit, cursor), pos


def _write_describe_topic_partitions_request(put: Put, m: DescribeTopicPartitionsRequest, version: int) -> None:
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_request(put, item_topics, version)
    put(_fmt_i.pack(m.response_partition_limit))
    if m.cursor is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_cursor(put, m.cursor, version)
    put(b"\0")


class DescribeTopicPartitionsResponsePartition(msgspec.Struct, gc=False):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = []


def _read_describe_topic_partitions_response_partition(buf: Buffer, pos: int, version: int) -> tuple[DescribeTopicPartitionsResponsePartition, int]:
    error_code, partition_index, leader_id, leader_epoch = _fmt_hiii.unpack_from(buf, pos)
    pos += 14
    _count, pos = read_compact_length(buf, pos)
    replica_nodes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    isr_nodes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_nullable_length(buf, pos)
    eligible_leader_replicas: list[int] | None = None
    if _count >= 0:
        eligible_leader_replicas = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    _count, pos = read_compact_nullable_length(buf, pos)
    last_known_elr: list[int] | None = None
    if _count >= 0:
        last_known_elr = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    offline_replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeTopicPartitionsResponsePartition(error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, eligible_leader_replicas, last_known_elr, offline_replicas), pos


def _write_describe_topic_partitions_response_partition(put: Put, m: DescribeTopicPartitionsResponsePartition, version: int) -> None:
    put(_fmt_hiii.pack(m.error_code, m.partition_index, m.leader_id, m.leader_epoch))
    put(uvarint(len(m.replica_nodes) + 1))
    put(pack(f">{len(m.replica_nodes)}i", *m.replica_nodes))
    put(uvarint(len(m.isr_nodes) + 1))
    put(pack(f">{len(m.isr_nodes)}i", *m.isr_nodes))
    if m.eligible_leader_replicas is None:
        put(b"\0")
    else:
        put(uvarint(len(m.eligible_leader_replicas) + 1))
        put(pack(f">{len(m.eligible_leader_replicas)}i", *m.eligible_leader_replicas))
    if m.last_known_elr is None:
        put(b"\0")
    else:
        put(uvarint(len(m.last_known_elr) + 1))
        put(pack(f">{len(m.last_known_elr)}i", *m.last_known_elr))
    put(uvarint(len(m.offline_replicas) + 1))
    put(pack(f">{len(m.offline_replicas)}i", *m.offline_replicas))
    put(b"\0")


class DescribeTopicPartitionsResponseTopic(msgspec.Struct, gc=False):
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = NO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: int = -2147483648


def _read_describe_topic_partitions_response_topic(buf: Buffer, pos: int, version: int) -> tuple[DescribeTopicPartitionsResponseTopic, int]:
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    name, pos = read_compact_nullable_string(buf, pos)
    topic_id, is_internal = _fmt_U_B_.unpack_from(buf, pos)
    pos += 17
    _count, pos = read_compact_length(buf, pos)
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_describe_topic_partitions_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    (topic_authorized_operations,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeTopicPartitionsResponseTopic(error_code, name, topic_id, is_internal, partitions, topic_authorized_operations), pos


def _write_describe_topic_partitions_response_topic(put: Put, m: DescribeTopicPartitionsResponseTopic, version: int) -> None:
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.name))
    put(_fmt_U_B_.pack(m.topic_id, m.is_internal))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_describe_topic_partitions_response_partition(put, item_partitions, version)
    put(_fmt_i.pack(m.topic_authorized_operations))
    put(b"\0")


class DescribeTopicPartitionsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None


def _read_describe_topic_partitions_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeTopicPartitionsResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_describe_topic_partitions_response_topic(buf, pos, version)
        topics.append(_topics_item)
    next_cursor: Cursor | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        next_cursor, pos = _read_cursor(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeTopicPartitionsResponse(throttle_time_ms, topics, next_cursor), pos


def _write_describe_topic_partitions_response(put: Put, m: DescribeTopicPartitionsResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_describe_topic_partitions_response_topic(put, item_topics, version)
    if m.next_cursor is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_cursor(put, m.next_cursor, version)
    put(b"\0")


decode_request = _read_describe_topic_partitions_request
encode_request = _write_describe_topic_partitions_request
decode_response = _read_describe_topic_partitions_response
encode_response = _write_describe_topic_partitions_response
