"""DeleteRecords: generated from protocol/schemas/delete_records.schema by protocol.codegen; do not edit."""

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

_fmt_i = _Struct(">i")
_fmt_iq = _Struct(">iq")
_fmt_iqh = _Struct(">iqh")

API_KEY = 21

class DeleteRecordsPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    offset: int = 0


def _read_delete_records_partition(buf: Buffer, pos: int, version: int) -> tuple[DeleteRecordsPartition, int]:
    flex = version >= 2
    partition_index, offset = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteRecordsPartition(partition_index, offset), pos


def _write_delete_records_partition(put: Put, m: DeleteRecordsPartition, version: int) -> None:
    flex = version >= 2
    put(_fmt_iq.pack(m.partition_index, m.offset))
    if flex:
        put(b"\0")


class DeleteRecordsTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


def _read_delete_records_topic(buf: Buffer, pos: int, version: int) -> tuple[DeleteRecordsTopic, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[DeleteRecordsPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_delete_records_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteRecordsTopic(name, partitions), pos


def _write_delete_records_topic(put: Put, m: DeleteRecordsTopic, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_delete_records_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class DeleteRecordsRequest(msgspec.Struct, gc=False):
    topics: list[DeleteRecordsTopic] = []
    timeout_ms: int = 0


def _read_delete_records_request(buf: Buffer, pos: int, version: int) -> tuple[DeleteRecordsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[DeleteRecordsTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_delete_records_topic(buf, pos, version)
        topics.append(_topics_item)
    (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteRecordsRequest(topics, timeout_ms), pos


def _write_delete_records_request(put: Put, m: DeleteRecordsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_delete_records_topic(put, item_topics, version)
    put(_fmt_i.pack(m.timeout_ms))
    if flex:
        put(b"\0")


class DeleteRecordsPartitionResult(msgspec.Struct, gc=False):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


def _read_delete_records_partition_result(buf: Buffer, pos: int, version: int) -> tuple[DeleteRecordsPartitionResult, int]:
    flex = version >= 2
    partition_index, low_watermark, error_code = _fmt_iqh.unpack_from(buf, pos)
    pos += 14
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteRecordsPartitionResult(partition_index, low_watermark, error_code), pos


def _write_delete_records_partition_result(put: Put, m: DeleteRecordsPartitionResult, version: int) -> None:
    flex = version >= 2
    put(_fmt_iqh.pack(m.partition_index, m.low_watermark, m.error_code))
    if flex:
        put(b"\0")


class DeleteRecordsTopicResult(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


def _read_delete_records_topic_result(buf: Buffer, pos: int, version: int) -> tuple[DeleteRecordsTopicResult, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[DeleteRecordsPartitionResult] = []
    for _ in range(_count):
        _partitions_item, pos = _read_delete_records_partition_result(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteRecordsTopicResult(name, partitions), pos


def _write_delete_records_topic_result(put: Put, m: DeleteRecordsTopicResult, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_delete_records_partition_result(put, item_partitions, version)
    if flex:
        put(b"\0")


class DeleteRecordsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = []


def _read_delete_records_response(buf: Buffer, pos: int, version: int) -> tuple[DeleteRecordsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[DeleteRecordsTopicResult] = []
    for _ in range(_count):
        _topics_item, pos = _read_delete_records_topic_result(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteRecordsResponse(throttle_time_ms, topics), pos


def _write_delete_records_response(put: Put, m: DeleteRecordsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_delete_records_topic_result(put, item_topics, version)
    if flex:
        put(b"\0")


decode_request = _read_delete_records_request
encode_request = _write_delete_records_request
decode_response = _read_delete_records_response
encode_response = _write_delete_records_response
