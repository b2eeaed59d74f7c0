"""ElectLeaders: generated from protocol/schemas/elect_leaders.schema by protocol.codegen; do not edit."""

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

_fmt_b = _Struct(">b")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 43

class TopicPartitions(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[int] = []


def _read_topic_partitions(buf: Buffer, pos: int, version: int) -> tuple[TopicPartitions, int]:
    flex = version >= 2
    topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TopicPartitions(topic, partitions), pos


def _write_topic_partitions(put: Put, m: TopicPartitions, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.topic))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    if flex:
        put(b"\0")


class ElectLeadersRequest(msgspec.Struct, gc=False):
    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: int = 60000


def _read_elect_leaders_request(buf: Buffer, pos: int, version: int) -> tuple[ElectLeadersRequest, int]:
    flex = version >= 2
    election_type: int = 0
    if version >= 1:
        (election_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    topic_partitions: list[TopicPartitions] | None = None
    if _count >= 0:
        topic_partitions = []
        for _ in range(_count):
            _topic_partitions_item, pos = _read_topic_partitions(buf, pos, version)
            topic_partitions.append(_topic_partitions_item)
    (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ElectLeadersRequest(election_type, topic_partitions, timeout_ms), pos


def _write_elect_leaders_request(put: Put, m: ElectLeadersRequest, version: int) -> None:
    flex = version >= 2
    if version >= 1:
        put(_fmt_b.pack(m.election_type))
    if m.topic_partitions is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.topic_partitions) + 1) if flex else length(len(m.topic_partitions)))
        for item_topic_partitions in m.topic_partitions:
            _write_topic_partitions(put, item_topic_partitions, version)
    put(_fmt_i.pack(m.timeout_ms))
    if flex:
        put(b"\0")


class PartitionResult(msgspec.Struct, gc=False):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_partition_result(buf: Buffer, pos: int, version: int) -> tuple[PartitionResult, int]:
    flex = version >= 2
    partition_id, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return PartitionResult(partition_id, error_code, error_message), pos


def _write_partition_result(put: Put, m: PartitionResult, version: int) -> None:
    flex = version >= 2
    put(_fmt_ih.pack(m.partition_id, m.error_code))
    put((compact_string if flex else string)(m.error_message))
    if flex:
        put(b"\0")


class ReplicaElectionResult(msgspec.Struct, gc=False):
    topic: str = ""
    partition_result: list[PartitionResult] = []


def _read_replica_election_result(buf: Buffer, pos: int, version: int) -> tuple[ReplicaElectionResult, int]:
    flex = version >= 2
    topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partition_result: list[PartitionResult] = []
    for _ in range(_count):
        _partition_result_item, pos = _read_partition_result(buf, pos, version)
        partition_result.append(_partition_result_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ReplicaElectionResult(topic, partition_result), pos


def _write_replica_election_result(put: Put, m: ReplicaElectionResult, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.topic))
    put(uvarint(len(m.partition_result) + 1) if flex else length(len(m.partition_result)))
    for item_partition_result in m.partition_result:
        _write_partition_result(put, item_partition_result, version)
    if flex:
        put(b"\0")


class ElectLeadersResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = []


def _read_elect_leaders_response(buf: Buffer, pos: int, version: int) -> tuple[ElectLeadersResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    error_code: int = 0
    if version >= 1:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    replica_election_results: list[ReplicaElectionResult] = []
    for _ in range(_count):
        _replica_election_results_item, pos = _read_replica_election_result(buf, pos, version)
        replica_election_results.append(_replica_election_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ElectLeadersResponse(throttle_time_ms, error_code, replica_election_results), pos


def _write_elect_leaders_response(put: Put, m: ElectLeadersResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    if version >= 1:
        put(_fmt_h.pack(m.error_code))
    put(uvarint(len(m.replica_election_results) + 1) if flex else length(len(m.replica_election_results)))
    for item_replica_election_results in m.replica_election_results:
        _write_replica_election_result(put, item_replica_election_results, version)
    if flex:
        put(b"\0")


decode_request = _read_elect_leaders_request
encode_request = _write_elect_leaders_request
decode_response = _read_elect_leaders_response
encode_response = _write_elect_leaders_response
