"""AlterPartitionReassignments: generated from protocol/schemas/alter_partition_reassignments.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 45

class ReassignablePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    replicas: list[int] | None = None


def _read_reassignable_partition(buf: Buffer, pos: int, version: int) -> tuple[ReassignablePartition, int]:
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_nullable_length(buf, pos)
    replicas: list[int] | None = None
    if _count >= 0:
        replicas = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReassignablePartition(partition_index, replicas), pos


def _write_reassignable_partition(put: Put, m: ReassignablePartition, version: int) -> None:
    put(_fmt_i.pack(m.partition_index))
    if m.replicas is None:
        put(b"\0")
    else:
        put(uvarint(len(m.replicas) + 1))
        put(pack(f">{len(m.replicas)}i", *m.replicas))
    put(b"\0")


class ReassignableTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[ReassignablePartition] = []


def _read_reassignable_topic(buf: Buffer, pos: int, version: int) -> tuple[ReassignableTopic, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[ReassignablePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_reassignable_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReassignableTopic(name, partitions), pos


def _write_reassignable_topic(put: Put, m: ReassignableTopic, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_reassignable_partition(put, item_partitions, version)
    put(b"\0")


class AlterPartitionReassignmentsRequest(msgspec.Struct, gc=False):
    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: list[ReassignableTopic] = []


def _read_alter_partition_reassignments_request(buf: Buffer, pos: int, version: int) -> tuple[AlterPartitionReassignmentsRequest, int]:
    (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    allow_replication_factor_change: bool = True
    if version >= 1:
        (allow_replication_factor_change,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    _count, pos = read_compact_length(buf, pos)
    topics: list[ReassignableTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_reassignable_topic(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterPartitionReassignmentsRequest(timeout_ms, allow_replication_factor_change, topics), pos


def _write_alter_partition_reassignments_request(put: Put, m: AlterPartitionReassignmentsRequest, version: int) -> None:
    put(_fmt_i.pack(m.timeout_ms))
    if version >= 1:
        put(_fmt_B_.pack(m.allow_replication_factor_change))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_reassignable_topic(put, item_topics, version)
    put(b"\0")


class ReassignablePartitionResponse(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_reassignable_partition_response(buf: Buffer, pos: int, version: int) -> tuple[ReassignablePartitionResponse, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReassignablePartitionResponse(partition_index, error_code, error_message), pos


def _write_reassignable_partition_response(put: Put, m: ReassignablePartitionResponse, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class ReassignableTopicResponse(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


def _read_reassignable_topic_response(buf: Buffer, pos: int, version: int) -> tuple[ReassignableTopicResponse, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[ReassignablePartitionResponse] = []
    for _ in range(_count):
        _partitions_item, pos = _read_reassignable_partition_response(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReassignableTopicResponse(name, partitions), pos


def _write_reassignable_topic_response(put: Put, m: ReassignableTopicResponse, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_reassignable_partition_response(put, item_partitions, version)
    put(b"\0")


class AlterPartitionReassignmentsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = []


def _read_alter_partition_reassignments_response(buf: Buffer, pos: int, version: int) -> tuple[AlterPartitionReassignmentsResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    allow_replication_factor_change: bool = True
    if version >= 1:
        (allow_replication_factor_change,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    responses: list[ReassignableTopicResponse] = []
    for _ in range(_count):
        _responses_item, pos = _read_reassignable_topic_response(buf, pos, version)
        responses.append(_responses_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterPartitionReassignmentsResponse(throttle_time_ms, allow_replication_factor_change, error_code, error_message, responses), pos


def _write_alter_partition_reassignments_response(put: Put, m: AlterPartitionReassignmentsResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    if version >= 1:
        put(_fmt_B_.pack(m.allow_replication_factor_change))
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.responses) + 1))
    for item_responses in m.responses:
        _write_reassignable_topic_response(put, item_responses, version)
    put(b"\0")


decode_request = _read_alter_partition_reassignments_request
encode_request = _write_alter_partition_reassignments_request
decode_response = _read_alter_partition_reassignments_response
encode_response = _write_alter_partition_reassignments_response
