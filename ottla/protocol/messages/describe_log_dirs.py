"""DescribeLogDirs: generated from protocol/schemas/describe_log_dirs.schema by protocol.codegen; do not edit."""

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
    read_compact_string,
    read_length,
    read_nullable_length,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_iqqB_ = _Struct(">iqq?")
_fmt_qq = _Struct(">qq")

API_KEY = 35

class DescribableLogDirTopic(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[int] = []


def _read_describable_log_dir_topic(buf: Buffer, pos: int, version: int) -> tuple[DescribableLogDirTopic, int]:
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
    return DescribableLogDirTopic(topic, partitions), pos


def _write_describable_log_dir_topic(put: Put, m: DescribableLogDirTopic, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.topic))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    if flex:
        put(b"\0")


class DescribeLogDirsRequest(msgspec.Struct, gc=False):
    topics: list[DescribableLogDirTopic] | None = []


def _read_describe_log_dirs_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeLogDirsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    topics: list[DescribableLogDirTopic] | None = None
    if _count >= 0:
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_describable_log_dir_topic(buf, pos, version)
            topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeLogDirsRequest(topics), pos


def _write_describe_log_dirs_request(put: Put, m: DescribeLogDirsRequest, version: int) -> None:
    flex = version >= 2
    if m.topics is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
        for item_topics in m.topics:
            _write_describable_log_dir_topic(put, item_topics, version)
    if flex:
        put(b"\0")


class DescribeLogDirsPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


def _read_describe_log_dirs_partition(buf: Buffer, pos: int, version: int) -> tuple[DescribeLogDirsPartition, int]:
    flex = version >= 2
    partition_index, partition_size, offset_lag, is_future_key = _fmt_iqqB_.unpack_from(buf, pos)
    pos += 21
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeLogDirsPartition(partition_index, partition_size, offset_lag, is_future_key), pos


def _write_describe_log_dirs_partition(put: Put, m: DescribeLogDirsPartition, version: int) -> None:
    flex = version >= 2
    put(_fmt_iqqB_.pack(m.partition_index, m.partition_size, m.offset_lag, m.is_future_key))
    if flex:
        put(b"\0")


class DescribeLogDirsTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


def _read_describe_log_dirs_topic(buf: Buffer, pos: int, version: int) -> tuple[DescribeLogDirsTopic, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[DescribeLogDirsPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_describe_log_dirs_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeLogDirsTopic(name, partitions), pos


def _write_describe_log_dirs_topic(put: Put, m: DescribeLogDirsTopic, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_describe_log_dirs_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class DescribeLogDirsResult(msgspec.Struct, gc=False):
    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


def _read_describe_log_dirs_result(buf: Buffer, pos: int, version: int) -> tuple[DescribeLogDirsResult, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    log_dir, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[DescribeLogDirsTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_describe_log_dirs_topic(buf, pos, version)
        topics.append(_topics_item)
    total_bytes: int = -1
    usable_bytes: int = -1
    if version >= 4:
        total_bytes, usable_bytes = _fmt_qq.unpack_from(buf, pos)
        pos += 16
    is_cordoned: bool = False
    if version >= 5:
        (is_cordoned,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeLogDirsResult(error_code, log_dir, topics, total_bytes, usable_bytes, is_cordoned), pos


def _write_describe_log_dirs_result(put: Put, m: DescribeLogDirsResult, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.log_dir))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_describe_log_dirs_topic(put, item_topics, version)
    if version >= 4:
        put(_fmt_qq.pack(m.total_bytes, m.usable_bytes))
    if version >= 5:
        put(_fmt_B_.pack(m.is_cordoned))
    if flex:
        put(b"\0")


class DescribeLogDirsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = []


def _read_describe_log_dirs_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeLogDirsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    error_code: int = 0
    if version >= 3:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results: list[DescribeLogDirsResult] = []
    for _ in range(_count):
        _results_item, pos = _read_describe_log_dirs_result(buf, pos, version)
        results.append(_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeLogDirsResponse(throttle_time_ms, error_code, results), pos


def _write_describe_log_dirs_response(put: Put, m: DescribeLogDirsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    if version >= 3:
        put(_fmt_h.pack(m.error_code))
    put(uvarint(len(m.results) + 1) if flex else length(len(m.results)))
    for item_results in m.results:
        _write_describe_log_dirs_result(put, item_results, version)
    if flex:
        put(b"\0")


decode_request = _read_describe_log_dirs_request
encode_request = _write_describe_log_dirs_request
decode_response = _read_describe_log_dirs_response
encode_response = _write_describe_log_dirs_response
