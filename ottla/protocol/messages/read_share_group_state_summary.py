"""ReadShareGroupStateSummary: generated from protocol/schemas/read_share_group_state_summary.schema by protocol.codegen; do not edit."""

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
_fmt_ii = _Struct(">ii")
_fmt_iiq = _Struct(">iiq")

API_KEY = 87

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


class ReadStateSummaryData(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_read_state_summary_data(buf: Buffer, pos: int, version: int) -> tuple[ReadStateSummaryData, int]:
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
    return ReadStateSummaryData(topic_id, partitions), pos


def _write_read_state_summary_data(put: Put, m: ReadStateSummaryData, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class ReadShareGroupStateSummaryRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[ReadStateSummaryData] = []


def _read_read_share_group_state_summary_request(buf: Buffer, pos: int, version: int) -> tuple[ReadShareGroupStateSummaryRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[ReadStateSummaryData] = []
    for _ in range(_count):
        _topics_item, pos = _read_read_state_summary_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReadShareGroupStateSummaryRequest(group_id, topics), pos


def _write_read_share_group_state_summary_request(put: Put, m: ReadShareGroupStateSummaryRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_read_state_summary_data(put, item_topics, version)
    put(b"\0")


class PartitionResult(msgspec.Struct, gc=False):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1


def _read_partition_result(buf: Buffer, pos: int, version: int) -> tuple[PartitionResult, int]:
    partition, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    state_epoch, leader_epoch, start_offset = _fmt_iiq.unpack_from(buf, pos)
    pos += 16
    delivery_complete_count: int = -1
    if version >= 1:
        (delivery_complete_count,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionResult(partition, error_code, error_message, state_epoch, leader_epoch, start_offset, delivery_complete_count), pos


def _write_partition_result(put: Put, m: PartitionResult, version: int) -> None:
    put(_fmt_ih.pack(m.partition, m.error_code))
    put(compact_string(m.error_message))
    put(_fmt_iiq.pack(m.state_epoch, m.leader_epoch, m.start_offset))
    if version >= 1:
        put(_fmt_i.pack(m.delivery_complete_count))
    put(b"\0")


class ReadStateSummaryResult(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionResult] = []


def _read_read_state_summary_result(buf: Buffer, pos: int, version: int) -> tuple[ReadStateSummaryResult, int]:
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
    return ReadStateSummaryResult(topic_id, partitions), pos


def _write_read_state_summary_result(put: Put, m: ReadStateSummaryResult, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_result(put, item_partitions, version)
    put(b"\0")


class ReadShareGroupStateSummaryResponse(msgspec.Struct, gc=False):
    results: list[ReadStateSummaryResult] = []


def _read_read_share_group_state_summary_response(buf: Buffer, pos: int, version: int) -> tuple[ReadShareGroupStateSummaryResponse, int]:
    _count, pos = read_compact_length(buf, pos)
    results: list[ReadStateSummaryResult] = []
    for _ in range(_count):
        _results_item, pos = _read_read_state_summary_result(buf, pos, version)
        results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReadShareGroupStateSummaryResponse(results), pos


def _write_read_share_group_state_summary_response(put: Put, m: ReadShareGroupStateSummaryResponse, version: int) -> None:
    put(uvarint(len(m.results) + 1))
    for item_results in m.results:
        _write_read_state_summary_result(put, item_results, version)
    put(b"\0")


decode_request = _read_read_share_group_state_summary_request
encode_request = _write_read_share_group_state_summary_request
decode_response = _read_read_share_group_state_summary_response
encode_response = _write_read_share_group_state_summary_response
