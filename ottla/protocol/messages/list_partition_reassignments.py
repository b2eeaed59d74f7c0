"""ListPartitionReassignments: generated from protocol/schemas/list_partition_reassignments.schema by protocol.codegen; do not edit."""

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

_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 46

class ListPartitionReassignmentsTopics(msgspec.Struct, gc=False):
    name: str = ""
    partition_indexes: list[int] = []


def _read_list_partition_reassignments_topics(buf: Buffer, pos: int, version: int) -> tuple[ListPartitionReassignmentsTopics, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partition_indexes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListPartitionReassignmentsTopics(name, partition_indexes), pos


def _write_list_partition_reassignments_topics(put: Put, m: ListPartitionReassignmentsTopics, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partition_indexes) + 1))
    put(pack(f">{len(m.partition_indexes)}i", *m.partition_indexes))
    put(b"\0")


class ListPartitionReassignmentsRequest(msgspec.Struct, gc=False):
    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


def _read_list_partition_reassignments_request(buf: Buffer, pos: int, version: int) -> tuple[ListPartitionReassignmentsRequest, int]:
    (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_nullable_length(buf, pos)
    topics: list[ListPartitionReassignmentsTopics] | None = None
    if _count >= 0:
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_list_partition_reassignments_topics(buf, pos, version)
            topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListPartitionReassignmentsRequest(timeout_ms, topics), pos


def _write_list_partition_reassignments_request(put: Put, m: ListPartitionReassignmentsRequest, version: int) -> None:
    put(_fmt_i.pack(m.timeout_ms))
    if m.topics is None:
        put(b"\0")
    else:
        put(uvarint(len(m.topics) + 1))
        for item_topics in m.topics:
            _write_list_partition_reassignments_topics(put, item_topics, version)
    put(b"\0")


class OngoingPartitionReassignment(msgspec.Struct, gc=False):
    partition_index: int = 0
    replicas: list[int] = []
    adding_replicas: list[int] = []
    removing_replicas: list[int] = []


def _read_ongoing_partition_reassignment(buf: Buffer, pos: int, version: int) -> tuple[OngoingPartitionReassignment, int]:
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    adding_replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    removing_replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return OngoingPartitionReassignment(partition_index, replicas, adding_replicas, removing_replicas), pos


def _write_ongoing_partition_reassignment(put: Put, m: OngoingPartitionReassignment, version: int) -> None:
    put(_fmt_i.pack(m.partition_index))
    put(uvarint(len(m.replicas) + 1))
    put(pack(f">{len(m.replicas)}i", *m.replicas))
    put(uvarint(len(m.adding_replicas) + 1))
    put(pack(f">{len(m.adding_replicas)}i", *m.adding_replicas))
    put(uvarint(len(m.removing_replicas) + 1))
    put(pack(f">{len(m.removing_replicas)}i", *m.removing_replicas))
    put(b"\0")


class OngoingTopicReassignment(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = []


def _read_ongoing_topic_reassignment(buf: Buffer, pos: int, version: int) -> tuple[OngoingTopicReassignment, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[OngoingPartitionReassignment] = []
    for _ in range(_count):
        _partitions_item, pos = _read_ongoing_partition_reassignment(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return OngoingTopicReassignment(name, partitions), pos


def _write_ongoing_topic_reassignment(put: Put, m: OngoingTopicReassignment, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_ongoing_partition_reassignment(put, item_partitions, version)
    put(b"\0")


class ListPartitionReassignmentsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = []


def _read_list_partition_reassignments_response(buf: Buffer, pos: int, version: int) -> tuple[ListPartitionReassignmentsResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[OngoingTopicReassignment] = []
    for _ in range(_count):
        _topics_item, pos = _read_ongoing_topic_reassignment(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListPartitionReassignmentsResponse(throttle_time_ms, error_code, error_message, topics), pos


def _write_list_partition_reassignments_response(put: Put, m: ListPartitionReassignmentsResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_ongoing_topic_reassignment(put, item_topics, version)
    put(b"\0")


decode_request = _read_list_partition_reassignments_request
encode_request = _write_list_partition_reassignments_request
decode_response = _read_list_partition_reassignments_response
encode_response = _write_list_partition_reassignments_response
