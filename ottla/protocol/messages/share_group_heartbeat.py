"""ShareGroupHeartbeat: generated from protocol/schemas/share_group_heartbeat.schema by protocol.codegen; do not edit."""

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
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_ii = _Struct(">ii")

API_KEY = 76

class ShareGroupHeartbeatRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


def _read_share_group_heartbeat_request(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupHeartbeatRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    member_id, pos = read_compact_string(buf, pos)
    (member_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    rack_id, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_nullable_length(buf, pos)
    subscribed_topic_names: list[str] | None = None
    if _count >= 0:
        subscribed_topic_names = []
        for _ in range(_count):
            _subscribed_topic_names_item, pos = read_compact_string(buf, pos)
            subscribed_topic_names.append(_subscribed_topic_names_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupHeartbeatRequest(group_id, member_id, member_epoch, rack_id, subscribed_topic_names), pos


def _write_share_group_heartbeat_request(put: Put, m: ShareGroupHeartbeatRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(compact_string(m.member_id))
    put(_fmt_i.pack(m.member_epoch))
    put(compact_string(m.rack_id))
    if m.subscribed_topic_names is None:
        put(b"\0")
    else:
        put(uvarint(len(m.subscribed_topic_names) + 1))
        for item_subscribed_topic_names in m.subscribed_topic_names:
            put(compact_string(item_subscribed_topic_names))
    put(b"\0")


class TopicPartitions(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[int] = []


def _read_topic_partitions(buf: Buffer, pos: int, version: int) -> tuple[TopicPartitions, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicPartitions(topic_id, partitions), pos


def _write_topic_partitions(put: Put, m: TopicPartitions, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class Assignment(msgspec.Struct, gc=False):
    topic_partitions: list[TopicPartitions] = []


def _read_assignment(buf: Buffer, pos: int, version: int) -> tuple[Assignment, int]:
    _count, pos = read_compact_length(buf, pos)
    topic_partitions: list[TopicPartitions] = []
    for _ in range(_count):
        _topic_partitions_item, pos = _read_topic_partitions(buf, pos, version)
        topic_partitions.append(_topic_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Assignment(topic_partitions), pos


def _write_assignment(put: Put, m: Assignment, version: int) -> None:
    put(uvarint(len(m.topic_partitions) + 1))
    for item_topic_partitions in m.topic_partitions:
        _write_topic_partitions(put, item_topic_partitions, version)
    put(b"\0")


class ShareGroupHeartbeatResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def _read_share_group_heartbeat_response(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupHeartbeatResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    member_id, pos = read_compact_nullable_string(buf, pos)
    member_epoch, heartbeat_interval_ms = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    assignment: Assignment | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        assignment, pos = _read_assignment(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupHeartbeatResponse(throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, assignment), pos


def _write_share_group_heartbeat_response(put: Put, m: ShareGroupHeartbeatResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(compact_string(m.member_id))
    put(_fmt_ii.pack(m.member_epoch, m.heartbeat_interval_ms))
    if m.assignment is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_assignment(put, m.assignment, version)
    put(b"\0")


decode_request = _read_share_group_heartbeat_request
encode_request = _write_share_group_heartbeat_request
decode_response = _read_share_group_heartbeat_response
encode_response = _write_share_group_heartbeat_response
