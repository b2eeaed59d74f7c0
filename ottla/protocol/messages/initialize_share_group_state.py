"""InitializeShareGroupState: generated from protocol/schemas/initialize_share_group_state.schema by protocol.codegen; do not edit."""

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
_fmt_iiq = _Struct(">iiq")

API_KEY = 83

class PartitionData(msgspec.Struct, gc=False):
    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    partition, state_epoch, start_offset = _fmt_iiq.unpack_from(buf, pos)
    pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionData(partition, state_epoch, start_offset), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    put(_fmt_iiq.pack(m.partition, m.state_epoch, m.start_offset))
    put(b"\0")


class InitializeStateData(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_initialize_state_data(buf: Buffer, pos: int, version: int) -> tuple[InitializeStateData, int]:
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
    return InitializeStateData(topic_id, partitions), pos


def _write_initialize_state_data(put: Put, m: InitializeStateData, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class InitializeShareGroupStateRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[InitializeStateData] = []


def _read_initialize_share_group_state_request(buf: Buffer, pos: int, version: int) -> tuple[InitializeShareGroupStateRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[InitializeStateData] = []
    for _ in range(_count):
        _topics_item, pos = _read_initialize_state_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return InitializeShareGroupStateRequest(group_id, topics), pos


def _write_initialize_share_group_state_request(put: Put, m: InitializeShareGroupStateRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_initialize_state_data(put, item_topics, version)
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


class InitializeStateResult(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionResult] = []


def _read_initialize_state_result(buf: Buffer, pos: int, version: int) -> tuple[InitializeStateResult, int]:
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
    return InitializeStateResult(topic_id, partitions), pos


def _write_initialize_state_result(put: Put, m: InitializeStateResult, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_result(put, item_partitions, version)
    put(b"\0")


class InitializeShareGroupStateResponse(msgspec.Struct, gc=False):
    results: list[InitializeStateResult] = []


def _read_initialize_share_group_state_response(buf: Buffer, pos: int, version: int) -> tuple[InitializeShareGroupStateResponse, int]:
    _count, pos = read_compact_length(buf, pos)
    results: list[InitializeStateResult] = []
    for _ in range(_count):
        _results_item, pos = _read_initialize_state_result(buf, pos, version)
        results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return InitializeShareGroupStateResponse(results), pos


def _write_initialize_share_group_state_response(put: Put, m: InitializeShareGroupStateResponse, version: int) -> None:
    put(uvarint(len(m.results) + 1))
    for item_results in m.results:
        _write_initialize_state_result(put, item_results, version)
    put(b"\0")


decode_request = _read_initialize_share_group_state_request
encode_request = _write_initialize_share_group_state_request
decode_response = _read_initialize_share_group_state_response
encode_response = _write_initialize_share_group_state_response
