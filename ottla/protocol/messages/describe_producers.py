"""DescribeProducers: generated from protocol/schemas/describe_producers.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_qiiqiq = _Struct(">qiiqiq")

API_KEY = 61

class TopicRequest(msgspec.Struct, gc=False):
    name: str = ""
    partition_indexes: list[int] = []


def _read_topic_request(buf: Buffer, pos: int, version: int) -> tuple[TopicRequest, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partition_indexes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicRequest(name, partition_indexes), pos


def _write_topic_request(put: Put, m: TopicRequest, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partition_indexes) + 1))
    put(pack(f">{len(m.partition_indexes)}i", *m.partition_indexes))
    put(b"\0")


class DescribeProducersRequest(msgspec.Struct, gc=False):
    topics: list[TopicRequest] = []


def _read_describe_producers_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeProducersRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicRequest] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_request(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeProducersRequest(topics), pos


def _write_describe_producers_request(put: Put, m: DescribeProducersRequest, version: int) -> None:
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_request(put, item_topics, version)
    put(b"\0")


class ProducerState(msgspec.Struct, gc=False):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


def _read_producer_state(buf: Buffer, pos: int, version: int) -> tuple[ProducerState, int]:
    producer_id, producer_epoch, last_sequence, last_timestamp, coordinator_epoch, current_txn_start_offset = _fmt_qiiqiq.unpack_from(buf, pos)
    pos += 36
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ProducerState(producer_id, producer_epoch, last_sequence, last_timestamp, coordinator_epoch, current_txn_start_offset), pos


def _write_producer_state(put: Put, m: ProducerState, version: int) -> None:
    put(_fmt_qiiqiq.pack(m.producer_id, m.producer_epoch, m.last_sequence, m.last_timestamp, m.coordinator_epoch, m.current_txn_start_offset))
    put(b"\0")


class PartitionResponse(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = []


def _read_partition_response(buf: Buffer, pos: int, version: int) -> tuple[PartitionResponse, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    active_producers: list[ProducerState] = []
    for _ in range(_count):
        _active_producers_item, pos = _read_producer_state(buf, pos, version)
        active_producers.append(_active_producers_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionResponse(partition_index, error_code, error_message, active_producers), pos


def _write_partition_response(put: Put, m: PartitionResponse, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.active_producers) + 1))
    for item_active_producers in m.active_producers:
        _write_producer_state(put, item_active_producers, version)
    put(b"\0")


class TopicResponse(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[PartitionResponse] = []


def _read_topic_response(buf: Buffer, pos: int, version: int) -> tuple[TopicResponse, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[PartitionResponse] = []
    for _ in range(_count):
        _partitions_item, pos = _read_partition_response(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicResponse(name, partitions), pos


def _write_topic_response(put: Put, m: TopicResponse, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_response(put, item_partitions, version)
    put(b"\0")


class DescribeProducersResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[TopicResponse] = []


def _read_describe_producers_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeProducersResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicResponse] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_response(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeProducersResponse(throttle_time_ms, topics), pos


def _write_describe_producers_response(put: Put, m: DescribeProducersResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_response(put, item_topics, version)
    put(b"\0")


decode_request = _read_describe_producers_request
encode_request = _write_describe_producers_request
decode_response = _read_describe_producers_response
encode_response = _write_describe_producers_response
