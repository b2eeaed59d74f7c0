"""ListOffsets: generated from protocol/schemas/list_offsets.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_string,
    read_length,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")
_fmt_ihqq = _Struct(">ihqq")
_fmt_q = _Struct(">q")

API_KEY = 2

class ListOffsetsPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


def _read_list_offsets_partition(buf: Buffer, pos: int, version: int) -> tuple[ListOffsetsPartition, int]:
    flex = version >= 6
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    current_leader_epoch: int = -1
    if version >= 4:
        (current_leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (timestamp,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListOffsetsPartition(partition_index, current_leader_epoch, timestamp), pos


def _write_list_offsets_partition(put: Put, m: ListOffsetsPartition, version: int) -> None:
    flex = version >= 6
    put(_fmt_i.pack(m.partition_index))
    if version >= 4:
        put(_fmt_i.pack(m.current_leader_epoch))
    put(_fmt_q.pack(m.timestamp))
    if flex:
        put(b"\0")


class ListOffsetsTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


def _read_list_offsets_topic(buf: Buffer, pos: int, version: int) -> tuple[ListOffsetsTopic, int]:
    flex = version >= 6
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[ListOffsetsPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_list_offsets_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListOffsetsTopic(name, partitions), pos


def _write_list_offsets_topic(put: Put, m: ListOffsetsTopic, version: int) -> None:
    flex = version >= 6
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_list_offsets_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class ListOffsetsRequest(msgspec.Struct, gc=False):
    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: int = 0


def _read_list_offsets_request(buf: Buffer, pos: int, version: int) -> tuple[ListOffsetsRequest, int]:
    flex = version >= 6
    (replica_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    isolation_level: int = 0
    if version >= 2:
        (isolation_level,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[ListOffsetsTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_list_offsets_topic(buf, pos, version)
        topics.append(_topics_item)
    timeout_ms: int = 0
    if version >= 10:
        (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms), pos


def _write_list_offsets_request(put: Put, m: ListOffsetsRequest, version: int) -> None:
    flex = version >= 6
    put(_fmt_i.pack(m.replica_id))
    if version >= 2:
        put(_fmt_b.pack(m.isolation_level))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_list_offsets_topic(put, item_topics, version)
    if version >= 10:
        put(_fmt_i.pack(m.timeout_ms))
    if flex:
        put(b"\0")


class ListOffsetsPartitionResponse(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


def _read_list_offsets_partition_response(buf: Buffer, pos: int, version: int) -> tuple[ListOffsetsPartitionResponse, int]:
    flex = version >= 6
    partition_index, error_code, timestamp, offset = _fmt_ihqq.unpack_from(buf, pos)
    pos += 22
    leader_epoch: int = -1
    if version >= 4:
        (leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListOffsetsPartitionResponse(partition_index, error_code, timestamp, offset, leader_epoch), pos


def _write_list_offsets_partition_response(put: Put, m: ListOffsetsPartitionResponse, version: int) -> None:
    flex = version >= 6
    put(_fmt_ihqq.pack(m.partition_index, m.error_code, m.timestamp, m.offset))
    if version >= 4:
        put(_fmt_i.pack(m.leader_epoch))
    if flex:
        put(b"\0")


class ListOffsetsTopicResponse(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


def _read_list_offsets_topic_response(buf: Buffer, pos: int, version: int) -> tuple[ListOffsetsTopicResponse, int]:
    flex = version >= 6
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[ListOffsetsPartitionResponse] = []
    for _ in range(_count):
        _partitions_item, pos = _read_list_offsets_partition_response(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListOffsetsTopicResponse(name, partitions), pos


def _write_list_offsets_topic_response(put: Put, m: ListOffsetsTopicResponse, version: int) -> None:
    flex = version >= 6
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_list_offsets_partition_response(put, item_partitions, version)
    if flex:
        put(b"\0")


class ListOffsetsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = []


def _read_list_offsets_response(buf: Buffer, pos: int, version: int) -> tuple[ListOffsetsResponse, int]:
    flex = version >= 6
    throttle_time_ms: int = 0
    if version >= 2:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[ListOffsetsTopicResponse] = []
    for _ in range(_count):
        _topics_item, pos = _read_list_offsets_topic_response(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListOffsetsResponse(throttle_time_ms, topics), pos


def _write_list_offsets_response(put: Put, m: ListOffsetsResponse, version: int) -> None:
    flex = version >= 6
    if version >= 2:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_list_offsets_topic_response(put, item_topics, version)
    if flex:
        put(b"\0")


decode_request = _read_list_offsets_request
encode_request = _write_list_offsets_request
decode_response = _read_list_offsets_response
encode_response = _write_list_offsets_response
