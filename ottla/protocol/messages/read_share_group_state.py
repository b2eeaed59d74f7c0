"""ReadShareGroupState: generated from protocol/schemas/read_share_group_state.schema by protocol.codegen; do not edit."""

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
_fmt_ii = _Struct(">ii")
_fmt_iq = _Struct(">iq")
_fmt_qqbh = _Struct(">qqbh")

API_KEY = 84

class PartitionData(msgspec.Struct, gc=False):
    partition: int = 0
    leader_epoch: int = 0


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    partition, leader_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionData(partition, leader_epoch), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    put(_fmt_ii.pack(m.partition, m.leader_epoch))
    put(b"\0")


class ReadStateData(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_read_state_data(buf: Buffer, pos: int, version: int) -> tuple[ReadStateData, int]:
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
    return ReadStateData(topic_id, partitions), pos


def _write_read_state_data(put: Put, m: ReadStateData, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class ReadShareGroupStateRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[ReadStateData] = []


def _read_read_share_group_state_request(buf: Buffer, pos: int, version: int) -> tuple[ReadShareGroupStateRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[ReadStateData] = []
    for _ in range(_count):
        _topics_item, pos = _read_read_state_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReadShareGroupStateRequest(group_id, topics), pos


def _write_read_share_group_state_request(put: Put, m: ReadShareGroupStateRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_read_state_data(put, item_topics, version)
    put(b"\0")


class StateBatch(msgspec.Struct, gc=False):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


def _read_state_batch(buf: Buffer, pos: int, version: int) -> tuple[StateBatch, int]:
    first_offset, last_offset, delivery_state, delivery_count = _fmt_qqbh.unpack_from(buf, pos)
    pos += 19
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StateBatch(first_offset, last_offset, delivery_state, delivery_count), pos


def _write_state_batch(put: Put, m: StateBatch, version: int) -> None:
    put(_fmt_qqbh.pack(m.first_offset, m.last_offset, m.delivery_state, m.delivery_count))
    put(b"\0")


class PartitionResult(msgspec.Struct, gc=False):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[StateBatch] = []


def _read_partition_result(buf: Buffer, pos: int, version: int) -> tuple[PartitionResult, int]:
    partition, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    state_epoch, start_offset = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    _count, pos = read_compact_length(buf, pos)
    state_batches: list[StateBatch] = []
    for _ in range(_count):
        _state_batches_item, pos = _read_state_batch(buf, pos, version)
        state_batches.append(_state_batches_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionResult(partition, error_code, error_message, state_epoch, start_offset, state_batches), pos


def _write_partition_result(put: Put, m: PartitionResult, version: int) -> None:
    put(_fmt_ih.pack(m.partition, m.error_code))
    put(compact_string(m.error_message))
    put(_fmt_iq.pack(m.state_epoch, m.start_offset))
    put(uvarint(len(m.state_batches) + 1))
    for item_state_batches in m.state_batches:
        _write_state_batch(put, item_state_batches, version)
    put(b"\0")


class ReadStateResult(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionResult] = []


def _read_read_state_result(buf: Buffer, pos: int, version: int) -> tuple[ReadStateResult, int]:
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
    return ReadStateResult(topic_id, partitions), pos


def _write_read_state_result(put: Put, m: ReadStateResult, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_result(put, item_partitions, version)
    put(b"\0")


class ReadShareGroupStateResponse(msgspec.Struct, gc=False):
    results: list[ReadStateResult] = []


def _read_read_share_group_state_response(buf: Buffer, pos: int, version: int) -> tuple[ReadShareGroupStateResponse, int]:
    _count, pos = read_compact_length(buf, pos)
    results: list[ReadStateResult] = []
    for _ in range(_count):
        _results_item, pos = _read_read_state_result(buf, pos, version)
        results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReadShareGroupStateResponse(results), pos


def _write_read_share_group_state_response(put: Put, m: ReadShareGroupStateResponse, version: int) -> None:
    put(uvarint(len(m.results) + 1))
    for item_results in m.results:
        _write_read_state_result(put, item_results, version)
    put(b"\0")


decode_request = _read_read_share_group_state_request
encode_request = _write_read_share_group_state_request
decode_response = _read_read_share_group_state_response
encode_response = _write_read_share_group_state_response
