"""DescribeShareGroupOffsets: generated from protocol/schemas/describe_share_group_offsets.schema by protocol.codegen; do not edit."""

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

_fmt_U_ = _Struct(">16s")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_iqi = _Struct(">iqi")
_fmt_q = _Struct(">q")

API_KEY = 90

class DescribeShareGroupOffsetsRequestTopic(msgspec.Struct, gc=False):
    topic_name: str = ""
    partitions: list[int] = []


def _read_describe_share_group_offsets_request_topic(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsRequestTopic, int]:
    topic_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsRequestTopic(topic_name, partitions), pos


def _write_describe_share_group_offsets_request_topic(put: Put, m: DescribeShareGroupOffsetsRequestTopic, version: int) -> None:
    put(compact_string(m.topic_name))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class DescribeShareGroupOffsetsRequestGroup(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = []


def _read_describe_share_group_offsets_request_group(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsRequestGroup, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_nullable_length(buf, pos)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = None
    if _count >= 0:
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_describe_share_group_offsets_request_topic(buf, pos, version)
            topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsRequestGroup(group_id, topics), pos


def _write_describe_share_group_offsets_request_group(put: Put, m: DescribeShareGroupOffsetsRequestGroup, version: int) -> None:
    put(compact_string(m.group_id))
    if m.topics is None:
        put(b"\0")
    else:
        put(uvarint(len(m.topics) + 1))
        for item_topics in m.topics:
            _write_describe_share_group_offsets_request_topic(put, item_topics, version)
    put(b"\0")


class DescribeShareGroupOffsetsRequest(msgspec.Struct, gc=False):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = []


def _read_describe_share_group_offsets_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    groups: list[DescribeShareGroupOffsetsRequestGroup] = []
    for _ in range(_count):
        _groups_item, pos = _read_describe_share_group_offsets_request_group(buf, pos, version)
        groups.append(_groups_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsRequest(groups), pos


def _write_describe_share_group_offsets_request(put: Put, m: DescribeShareGroupOffsetsRequest, version: int) -> None:
    put(uvarint(len(m.groups) + 1))
    for item_groups in m.groups:
        _write_describe_share_group_offsets_request_group(put, item_groups, version)
    put(b"\0")


class DescribeShareGroupOffsetsResponsePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None


def _read_describe_share_group_offsets_response_partition(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsResponsePartition, int]:
    partition_index, start_offset, leader_epoch = _fmt_iqi.unpack_from(buf, pos)
    pos += 16
    lag: int = -1
    if version >= 1:
        (lag,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsResponsePartition(partition_index, start_offset, leader_epoch, lag, error_code, error_message), pos


def _write_describe_share_group_offsets_response_partition(put: Put, m: DescribeShareGroupOffsetsResponsePartition, version: int) -> None:
    put(_fmt_iqi.pack(m.partition_index, m.start_offset, m.leader_epoch))
    if version >= 1:
        put(_fmt_q.pack(m.lag))
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class DescribeShareGroupOffsetsResponseTopic(msgspec.Struct, gc=False):
    topic_name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []


def _read_describe_share_group_offsets_response_topic(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsResponseTopic, int]:
    topic_name, pos = read_compact_string(buf, pos)
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_describe_share_group_offsets_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsResponseTopic(topic_name, topic_id, partitions), pos


def _write_describe_share_group_offsets_response_topic(put: Put, m: DescribeShareGroupOffsetsResponseTopic, version: int) -> None:
    put(compact_string(m.topic_name))
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_describe_share_group_offsets_response_partition(put, item_partitions, version)
    put(b"\0")


class DescribeShareGroupOffsetsResponseGroup(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: int = 0
    error_message: str | None = None


def _read_describe_share_group_offsets_response_group(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsResponseGroup, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_describe_share_group_offsets_response_topic(buf, pos, version)
        topics.append(_topics_item)
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsResponseGroup(group_id, topics, error_code, error_message), pos


def _write_describe_share_group_offsets_response_group(put: Put, m: DescribeShareGroupOffsetsResponseGroup, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_describe_share_group_offsets_response_topic(put, item_topics, version)
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class DescribeShareGroupOffsetsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []


def _read_describe_share_group_offsets_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeShareGroupOffsetsResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
    for _ in range(_count):
        _groups_item, pos = _read_describe_share_group_offsets_response_group(buf, pos, version)
        groups.append(_groups_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeShareGroupOffsetsResponse(throttle_time_ms, groups), pos


def _write_describe_share_group_offsets_response(put: Put, m: DescribeShareGroupOffsetsResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.groups) + 1))
    for item_groups in m.groups:
        _write_describe_share_group_offsets_response_group(put, item_groups, version)
    put(b"\0")


decode_request = _read_describe_share_group_offsets_request
encode_request = _write_describe_share_group_offsets_request
decode_response = _read_describe_share_group_offsets_response
encode_response = _write_describe_share_group_offsets_response
