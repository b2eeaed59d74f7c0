"""OffsetForLeaderEpoch: generated from protocol/schemas/offset_for_leader_epoch.schema by protocol.codegen; do not edit."""

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

_fmt_hiiq = _Struct(">hiiq")
_fmt_i = _Struct(">i")
_fmt_iii = _Struct(">iii")

API_KEY = 23

class OffsetForLeaderPartition(msgspec.Struct, gc=False):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


def _read_offset_for_leader_partition(buf: Buffer, pos: int, version: int) -> tuple[OffsetForLeaderPartition, int]:
    flex = version >= 4
    partition, current_leader_epoch, leader_epoch = _fmt_iii.unpack_from(buf, pos)
    pos += 12
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetForLeaderPartition(partition, current_leader_epoch, leader_epoch), pos


def _write_offset_for_leader_partition(put: Put, m: OffsetForLeaderPartition, version: int) -> None:
    flex = version >= 4
    put(_fmt_iii.pack(m.partition, m.current_leader_epoch, m.leader_epoch))
    if flex:
        put(b"\0")


class OffsetForLeaderTopic(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


def _read_offset_for_leader_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetForLeaderTopic, int]:
    flex = version >= 4
    topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[OffsetForLeaderPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_offset_for_leader_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetForLeaderTopic(topic, partitions), pos


def _write_offset_for_leader_topic(put: Put, m: OffsetForLeaderTopic, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.topic))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_offset_for_leader_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class OffsetForLeaderEpochRequest(msgspec.Struct, gc=False):
    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = []


def _read_offset_for_leader_epoch_request(buf: Buffer, pos: int, version: int) -> tuple[OffsetForLeaderEpochRequest, int]:
    flex = version >= 4
    replica_id: int = -2
    if version >= 3:
        (replica_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[OffsetForLeaderTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_offset_for_leader_topic(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetForLeaderEpochRequest(replica_id, topics), pos


def _write_offset_for_leader_epoch_request(put: Put, m: OffsetForLeaderEpochRequest, version: int) -> None:
    flex = version >= 4
    if version >= 3:
        put(_fmt_i.pack(m.replica_id))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_offset_for_leader_topic(put, item_topics, version)
    if flex:
        put(b"\0")


class EpochEndOffset(msgspec.Struct, gc=False):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


def _read_epoch_end_offset(buf: Buffer, pos: int, version: int) -> tuple[EpochEndOffset, int]:
    flex = version >= 4
    error_code, partition, leader_epoch, end_offset = _fmt_hiiq.unpack_from(buf, pos)
    pos += 18
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EpochEndOffset(error_code, partition, leader_epoch, end_offset), pos


def _write_epoch_end_offset(put: Put, m: EpochEndOffset, version: int) -> None:
    flex = version >= 4
    put(_fmt_hiiq.pack(m.error_code, m.partition, m.leader_epoch, m.end_offset))
    if flex:
        put(b"\0")


class OffsetForLeaderTopicResult(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[EpochEndOffset] = []


def _read_offset_for_leader_topic_result(buf: Buffer, pos: int, version: int) -> tuple[OffsetForLeaderTopicResult, int]:
    flex = version >= 4
    topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[EpochEndOffset] = []
    for _ in range(_count):
        _partitions_item, pos = _read_epoch_end_offset(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetForLeaderTopicResult(topic, partitions), pos


def _write_offset_for_leader_topic_result(put: Put, m: OffsetForLeaderTopicResult, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.topic))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_epoch_end_offset(put, item_partitions, version)
    if flex:
        put(b"\0")


class OffsetForLeaderEpochResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = []


def _read_offset_for_leader_epoch_response(buf: Buffer, pos: int, version: int) -> tuple[OffsetForLeaderEpochResponse, int]:
    flex = version >= 4
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[OffsetForLeaderTopicResult] = []
    for _ in range(_count):
        _topics_item, pos = _read_offset_for_leader_topic_result(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetForLeaderEpochResponse(throttle_time_ms, topics), pos


def _write_offset_for_leader_epoch_response(put: Put, m: OffsetForLeaderEpochResponse, version: int) -> None:
    flex = version >= 4
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_offset_for_leader_topic_result(put, item_topics, version)
    if flex:
        put(b"\0")


decode_request = _read_offset_for_leader_epoch_request
encode_request = _write_offset_for_leader_epoch_request
decode_response = _read_offset_for_leader_epoch_response
encode_response = _write_offset_for_leader_epoch_response
