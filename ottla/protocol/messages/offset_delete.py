"""OffsetDelete: generated from protocol/schemas/offset_delete.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    length,
    read_length,
    read_string,
    string,
)

_fmt_hi = _Struct(">hi")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 47

class OffsetDeleteRequestPartition(msgspec.Struct, gc=False):
    partition_index: int = 0


def _read_offset_delete_request_partition(buf: Buffer, pos: int, version: int) -> tuple[OffsetDeleteRequestPartition, int]:
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    return OffsetDeleteRequestPartition(partition_index), pos


def _write_offset_delete_request_partition(put: Put, m: OffsetDeleteRequestPartition, version: int) -> None:
    put(_fmt_i.pack(m.partition_index))


class OffsetDeleteRequestTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


def _read_offset_delete_request_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetDeleteRequestTopic, int]:
    name, pos = read_string(buf, pos)
    _count, pos = read_length(buf, pos)
    partitions: list[OffsetDeleteRequestPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_offset_delete_request_partition(buf, pos, version)
        partitions.append(_partitions_item)
    return OffsetDeleteRequestTopic(name, partitions), pos


def _write_offset_delete_request_topic(put: Put, m: OffsetDeleteRequestTopic, version: int) -> None:
    put(string(m.name))
    put(length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_offset_delete_request_partition(put, item_partitions, version)


class OffsetDeleteRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


def _read_offset_delete_request(buf: Buffer, pos: int, version: int) -> tuple[OffsetDeleteRequest, int]:
    group_id, pos = read_string(buf, pos)
    _count, pos = read_length(buf, pos)
    topics: list[OffsetDeleteRequestTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_offset_delete_request_topic(buf, pos, version)
        topics.append(_topics_item)
    return OffsetDeleteRequest(group_id, topics), pos


def _write_offset_delete_request(put: Put, m: OffsetDeleteRequest, version: int) -> None:
    put(string(m.group_id))
    put(length(len(m.topics)))
    for item_topics in m.topics:
        _write_offset_delete_request_topic(put, item_topics, version)


class OffsetDeleteResponsePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0


def _read_offset_delete_response_partition(buf: Buffer, pos: int, version: int) -> tuple[OffsetDeleteResponsePartition, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    return OffsetDeleteResponsePartition(partition_index, error_code), pos


def _write_offset_delete_response_partition(put: Put, m: OffsetDeleteResponsePartition, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))


class OffsetDeleteResponseTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


def _read_offset_delete_response_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetDeleteResponseTopic, int]:
    name, pos = read_string(buf, pos)
    _count, pos = read_length(buf, pos)
    partitions: list[OffsetDeleteResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_offset_delete_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    return OffsetDeleteResponseTopic(name, partitions), pos


def _write_offset_delete_response_topic(put: Put, m: OffsetDeleteResponseTopic, version: int) -> None:
    put(string(m.name))
    put(length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_offset_delete_response_partition(put, item_partitions, version)


class OffsetDeleteResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = []


def _read_offset_delete_response(buf: Buffer, pos: int, version: int) -> tuple[OffsetDeleteResponse, int]:
    error_code, throttle_time_ms = _fmt_hi.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_length(buf, pos)
    topics: list[OffsetDeleteResponseTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_offset_delete_response_topic(buf, pos, version)
        topics.append(_topics_item)
    return OffsetDeleteResponse(error_code, throttle_time_ms, topics), pos


def _write_offset_delete_response(put: Put, m: OffsetDeleteResponse, version: int) -> None:
    put(_fmt_hi.pack(m.error_code, m.throttle_time_ms))
    put(length(len(m.topics)))
    for item_topics in m.topics:
        _write_offset_delete_response_topic(put, item_topics, version)


decode_request = _read_offset_delete_request
encode_request = _write_offset_delete_request
decode_response = _read_offset_delete_response
encode_response = _write_offset_delete_response
