"""CreatePartitions: generated from protocol/schemas/create_partitions.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_iB_ = _Struct(">i?")

API_KEY = 37

class CreatePartitionsAssignment(msgspec.Struct, gc=False):
    broker_ids: list[int] = []


def _read_create_partitions_assignment(buf: Buffer, pos: int, version: int) -> tuple[CreatePartitionsAssignment, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    broker_ids: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatePartitionsAssignment(broker_ids), pos


def _write_create_partitions_assignment(put: Put, m: CreatePartitionsAssignment, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.broker_ids) + 1) if flex else length(len(m.broker_ids)))
    put(pack(f">{len(m.broker_ids)}i", *m.broker_ids))
    if flex:
        put(b"\0")


class CreatePartitionsTopic(msgspec.Struct, gc=False):
    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = []


def _read_create_partitions_topic(buf: Buffer, pos: int, version: int) -> tuple[CreatePartitionsTopic, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    (count,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    assignments: list[CreatePartitionsAssignment] | None = None
    if _count >= 0:
        assignments = []
        for _ in range(_count):
            _assignments_item, pos = _read_create_partitions_assignment(buf, pos, version)
            assignments.append(_assignments_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatePartitionsTopic(name, count, assignments), pos


def _write_create_partitions_topic(put: Put, m: CreatePartitionsTopic, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put(_fmt_i.pack(m.count))
    if m.assignments is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.assignments) + 1) if flex else length(len(m.assignments)))
        for item_assignments in m.assignments:
            _write_create_partitions_assignment(put, item_assignments, version)
    if flex:
        put(b"\0")


class CreatePartitionsRequest(msgspec.Struct, gc=False):
    topics: list[CreatePartitionsTopic] = []
    timeout_ms: int = 0
    validate_only: bool = False


def _read_create_partitions_request(buf: Buffer, pos: int, version: int) -> tuple[CreatePartitionsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[CreatePartitionsTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_create_partitions_topic(buf, pos, version)
        topics.append(_topics_item)
    timeout_ms, validate_only = _fmt_iB_.unpack_from(buf, pos)
    pos += 5
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatePartitionsRequest(topics, timeout_ms, validate_only), pos


def _write_create_partitions_request(put: Put, m: CreatePartitionsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_create_partitions_topic(put, item_topics, version)
    put(_fmt_iB_.pack(m.timeout_ms, m.validate_only))
    if flex:
        put(b"\0")


class CreatePartitionsTopicResult(msgspec.Struct, gc=False):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None


def _read_create_partitions_topic_result(buf: Buffer, pos: int, version: int) -> tuple[CreatePartitionsTopicResult, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatePartitionsTopicResult(name, error_code, error_message), pos


def _write_create_partitions_topic_result(put: Put, m: CreatePartitionsTopicResult, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    if flex:
        put(b"\0")


class CreatePartitionsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = []


def _read_create_partitions_response(buf: Buffer, pos: int, version: int) -> tuple[CreatePartitionsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results: list[CreatePartitionsTopicResult] = []
    for _ in range(_count):
        _results_item, pos = _read_create_partitions_topic_result(buf, pos, version)
        results.append(_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatePartitionsResponse(throttle_time_ms, results), pos


def _write_create_partitions_response(put: Put, m: CreatePartitionsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.results) + 1) if flex else length(len(m.results)))
    for item_results in m.results:
        _write_create_partitions_topic_result(put, item_results, version)
    if flex:
        put(b"\0")


decode_request = _read_create_partitions_request
encode_request = _write_create_partitions_request
decode_response = _read_create_partitions_response
encode_response = _write_create_partitions_response
