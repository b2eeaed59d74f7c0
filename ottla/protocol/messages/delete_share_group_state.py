"""DeleteShareGroupState: generated from protocol/schemas/delete_share_group_state.schema by protocol.codegen; do not edit."""

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
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 86

class PartitionData(msgspec.Struct, gc=False):
    partition: int = 0


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    (partition,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionData(partition), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    put(_fmt_i.pack(m.partition))
    put(b"\0")


class DeleteStateData(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_delete_state_data(buf: Buffer, pos: int, version: int) -> tuple[DeleteStateData, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[PartitionData] = []
    for _ in range(_count):
        _partitions_item, pos = _read_partition_data(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteStateData(topic_id, partitions), pos


def _write_delete_state_data(put: Put, m: DeleteStateData, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class DeleteShareGroupStateRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[DeleteStateData] = []


def _read_delete_share_group_state_request(buf: Buffer, pos: int, version: int) -> tuple[DeleteShareGroupStateRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[DeleteStateData] = []
    for _ in range(_count):
        _topics_item, pos = _read_delete_state_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteShareGroupStateRequest(group_id, topics), pos


def _write_delete_share_group_state_request(put: Put, m: DeleteShareGroupStateRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_delete_state_data(put, item_topics, version)
    put(b"\0")


class PartitionResult(msgspec.Struct, gc=False):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


def _read_partition_result(buf: Buffer, pos: int, version: int) -> tuple[PartitionResult, int]:
    partition, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionResult(partition, error_code, error_message), pos


def _write_partition_result(put: Put, m: PartitionResult, version: int) -> None:
    put(_fmt_ih.pack(m.partition, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class DeleteStateResult(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionResult] = []


def _read_delete_state_result(buf: Buffer, pos: int, version: int) -> tuple[DeleteStateResult, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[PartitionResult] = []
    for _ in range(_count):
        _partitions_item, pos = _read_partition_result(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteStateResult(topic_id, partitions), pos


def _write_delete_state_result(put: Put, m: DeleteStateResult, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_result(put, item_partitions, version)
    put(b"\0")


class DeleteShareGroupStateResponse(msgspec.Struct, gc=False):
    results: list[DeleteStateResult] = []


def _read_delete_share_group_state_response(buf: Buffer, pos: int, version: int) -> tuple[DeleteShareGroupStateResponse, int]:
    _count, pos = read_compact_length(buf, pos)
    results: list[DeleteStateResult] = []
    for _ in range(_count):
        _results_item, pos = _read_delete_state_result(buf, pos, version)
        results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteShareGroupStateResponse(results), pos


def _write_delete_share_group_state_response(put: Put, m: DeleteShareGroupStateResponse, version: int) -> None:
    put(uvarint(len(m.results) + 1))
    for item_results in m.results:
        _write_delete_state_result(put, item_results, version)
    put(b"\0")


decode_request = _read_delete_share_group_state_request
encode_request = _write_delete_share_group_state_request
decode_response = _read_delete_share_group_state_response
encode_response = _write_delete_share_group_state_response
