"""AlterShareGroupOffsets: generated from protocol/schemas/alter_share_group_offsets.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_ih = _Struct(">ih")
_fmt_iq = _Struct(">iq")

API_KEY = 91

class AlterShareGroupOffsetsRequestPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    start_offset: int = 0


def _read_alter_share_group_offsets_request_partition(buf: Buffer, pos: int, version: int) -> tuple[AlterShareGroupOffsetsRequestPartition, int]:
    partition_index, start_offset = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterShareGroupOffsetsRequestPartition(partition_index, start_offset), pos


def _write_alter_share_group_offsets_request_partition(put: Put, m: AlterShareGroupOffsetsRequestPartition, version: int) -> None:
    put(_fmt_iq.pack(m.partition_index, m.start_offset))
    put(b"\0")


class AlterShareGroupOffsetsRequestTopic(msgspec.Struct, gc=False):
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []


def _read_alter_share_group_offsets_request_topic(buf: Buffer, pos: int, version: int) -> tuple[AlterShareGroupOffsetsRequestTopic, int]:
    topic_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_alter_share_group_offsets_request_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterShareGroupOffsetsRequestTopic(topic_name, partitions), pos


def _write_alter_share_group_offsets_request_topic(put: Put, m: AlterShareGroupOffsetsRequestTopic, version: int) -> None:
    put(compact_string(m.topic_name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_alter_share_group_offsets_request_partition(put, item_partitions, version)
    put(b"\0")


class AlterShareGroupOffsetsRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = []


def _read_alter_share_group_offsets_request(buf: Buffer, pos: int, version: int) -> tuple[AlterShareGroupOffsetsRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[AlterShareGroupOffsetsRequestTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_alter_share_group_offsets_request_topic(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterShareGroupOffsetsRequest(group_id, topics), pos


def _write_alter_share_group_offsets_request(put: Put, m: AlterShareGroupOffsetsRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_alter_share_group_offsets_request_topic(put, item_topics, version)
    put(b"\0")


class AlterShareGroupOffsetsResponsePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


def _read_alter_share_group_offsets_response_partition(buf: Buffer, pos: int, version: int) -> tuple[AlterShareGroupOffsetsResponsePartition, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterShareGroupOffsetsResponsePartition(partition_index, error_code, error_message), pos


def _write_alter_share_group_offsets_response_partition(put: Put, m: AlterShareGroupOffsetsResponsePartition, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class AlterShareGroupOffsetsResponseTopic(msgspec.Struct, gc=False):
    topic_name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []


def _read_alter_share_group_offsets_response_topic(buf: Buffer, pos: int, version: int) -> tuple[AlterShareGroupOffsetsResponseTopic, int]:
    topic_name, pos = read_compact_string(buf, pos)
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_alter_share_group_offsets_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterShareGroupOffsetsResponseTopic(topic_name, topic_id, partitions), pos


def _write_alter_share_group_offsets_response_topic(put: Put, m: AlterShareGroupOffsetsResponseTopic, version: int) -> None:
    put(compact_string(m.topic_name))
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_alter_share_group_offsets_response_partition(put, item_partitions, version)
    put(b"\0")


class AlterShareGroupOffsetsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = []


def _read_alter_share_group_offsets_response(buf: Buffer, pos: int, version: int) -> tuple[AlterShareGroupOffsetsResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
    for _ in range(_count):
        _responses_item, pos = _read_alter_share_group_offsets_response_topic(buf, pos, version)
        responses.append(_responses_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterShareGroupOffsetsResponse(throttle_time_ms, error_code, error_message, responses), pos


def _write_alter_share_group_offsets_response(put: Put, m: AlterShareGroupOffsetsResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.responses) + 1))
    for item_responses in m.responses:
        _write_alter_share_group_offsets_response_topic(put, item_responses, version)
    put(b"\0")


decode_request = _read_alter_share_group_offsets_request
encode_request = _write_alter_share_group_offsets_request
decode_response = _read_alter_share_group_offsets_response
encode_response = _write_alter_share_group_offsets_response
