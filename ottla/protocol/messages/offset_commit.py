"""OffsetCommit: generated from protocol/schemas/offset_commit.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_iq = _Struct(">iq")
_fmt_q = _Struct(">q")

API_KEY = 8

class OffsetCommitRequestPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


def _read_offset_commit_request_partition(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitRequestPartition, int]:
    flex = version >= 8
    partition_index, committed_offset = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    committed_leader_epoch: int = -1
    if version >= 6:
        (committed_leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    committed_metadata, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetCommitRequestPartition(partition_index, committed_offset, committed_leader_epoch, committed_metadata), pos


def _write_offset_commit_request_partition(put: Put, m: OffsetCommitRequestPartition, version: int) -> None:
    flex = version >= 8
    put(_fmt_iq.pack(m.partition_index, m.committed_offset))
    if version >= 6:
        put(_fmt_i.pack(m.committed_leader_epoch))
    put((compact_string if flex else string)(m.committed_metadata))
    if flex:
        put(b"\0")


class OffsetCommitRequestTopic(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = []


def _read_offset_commit_request_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitRequestTopic, int]:
    flex = version >= 8
    name: str = ""
    if version <= 9:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 10:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[OffsetCommitRequestPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_offset_commit_request_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetCommitRequestTopic(name, topic_id, partitions), pos


def _write_offset_commit_request_topic(put: Put, m: OffsetCommitRequestTopic, version: int) -> None:
    flex = version >= 8
    if version <= 9:
        put((compact_string if flex else string)(m.name))
    if version >= 10:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_offset_commit_request_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class OffsetCommitRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = []


def _read_offset_commit_request(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitRequest, int]:
    flex = version >= 8
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    (generation_id_or_member_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 7:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    retention_time_ms: int = -1
    if version <= 4:
        (retention_time_ms,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[OffsetCommitRequestTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_offset_commit_request_topic(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetCommitRequest(group_id, generation_id_or_member_epoch, member_id, group_instance_id, retention_time_ms, topics), pos


def _write_offset_commit_request(put: Put, m: OffsetCommitRequest, version: int) -> None:
    flex = version >= 8
    put((compact_string if flex else string)(m.group_id))
    put(_fmt_i.pack(m.generation_id_or_member_epoch))
    put((compact_string if flex else string)(m.member_id))
    if version >= 7:
        put((compact_string if flex else string)(m.group_instance_id))
    if version <= 4:
        put(_fmt_q.pack(m.retention_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_offset_commit_request_topic(put, item_topics, version)
    if flex:
        put(b"\0")


class OffsetCommitResponsePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0


def _read_offset_commit_response_partition(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitResponsePartition, int]:
    flex = version >= 8
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetCommitResponsePartition(partition_index, error_code), pos


def _write_offset_commit_response_partition(put: Put, m: OffsetCommitResponsePartition, version: int) -> None:
    flex = version >= 8
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    if flex:
        put(b"\0")


class OffsetCommitResponseTopic(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = []


def _read_offset_commit_response_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitResponseTopic, int]:
    flex = version >= 8
    name: str = ""
    if version <= 9:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 10:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[OffsetCommitResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_offset_commit_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetCommitResponseTopic(name, topic_id, partitions), pos


def _write_offset_commit_response_topic(put: Put, m: OffsetCommitResponseTopic, version: int) -> None:
    flex = version >= 8
    if version <= 9:
        put((compact_string if flex else string)(m.name))
    if version >= 10:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_offset_commit_response_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class OffsetCommitResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = []


def _read_offset_commit_response(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitResponse, int]:
    flex = version >= 8
    throttle_time_ms: int = 0
    if version >= 3:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[OffsetCommitResponseTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_offset_commit_response_topic(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetCommitResponse(throttle_time_ms, topics), pos


def _write_offset_commit_response(put: Put, m: OffsetCommitResponse, version: int) -> None:
    flex = version >= 8
    if version >= 3:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_offset_commit_response_topic(put, item_topics, version)
    if flex:
        put(b"\0")


decode_request = _read_offset_commit_request
encode_request = _write_offset_commit_request
decode_response = _read_offset_commit_response
encode_response = _write_offset_commit_response
