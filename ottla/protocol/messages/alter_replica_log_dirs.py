"""AlterReplicaLogDirs: generated from protocol/schemas/alter_replica_log_dirs.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

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
_fmt_ih = _Struct(">ih")

API_KEY = 34

class AlterReplicaLogDirTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[int] = []


def _read_alter_replica_log_dir_topic(buf: Buffer, pos: int, version: int) -> tuple[AlterReplicaLogDirTopic, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterReplicaLogDirTopic(name, partitions), pos


def _write_alter_replica_log_dir_topic(put: Put, m: AlterReplicaLogDirTopic, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    if flex:
        put(b"\0")


class AlterReplicaLogDir(msgspec.Struct, gc=False):
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


def _read_alter_replica_log_dir(buf: Buffer, pos: int, version: int) -> tuple[AlterReplicaLogDir, int]:
    flex = version >= 2
    path, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[AlterReplicaLogDirTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_alter_replica_log_dir_topic(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterReplicaLogDir(path, topics), pos


def _write_alter_replica_log_dir(put: Put, m: AlterReplicaLogDir, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.path))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_alter_replica_log_dir_topic(put, item_topics, version)
    if flex:
        put(b"\0")


class AlterReplicaLogDirsRequest(msgspec.Struct, gc=False):
    dirs: list[AlterReplicaLogDir] = []


def _read_alter_replica_log_dirs_request(buf: Buffer, pos: int, version: int) -> tuple[AlterReplicaLogDirsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    dirs: list[AlterReplicaLogDir] = []
    for _ in range(_count):
        _dirs_item, pos = _read_alter_replica_log_dir(buf, pos, version)
        dirs.append(_dirs_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterReplicaLogDirsRequest(dirs), pos


def _write_alter_replica_log_dirs_request(put: Put, m: AlterReplicaLogDirsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.dirs) + 1) if flex else length(len(m.dirs)))
    for item_dirs in m.dirs:
        _write_alter_replica_log_dir(put, item_dirs, version)
    if flex:
        put(b"\0")


class AlterReplicaLogDirPartitionResult(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0


def _read_alter_replica_log_dir_partition_result(buf: Buffer, pos: int, version: int) -> tuple[AlterReplicaLogDirPartitionResult, int]:
    flex = version >= 2
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterReplicaLogDirPartitionResult(partition_index, error_code), pos


def _write_alter_replica_log_dir_partition_result(put: Put, m: AlterReplicaLogDirPartitionResult, version: int) -> None:
    flex = version >= 2
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    if flex:
        put(b"\0")


class AlterReplicaLogDirTopicResult(msgspec.Struct, gc=False):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


def _read_alter_replica_log_dir_topic_result(buf: Buffer, pos: int, version: int) -> tuple[AlterReplicaLogDirTopicResult, int]:
    flex = version >= 2
    topic_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[AlterReplicaLogDirPartitionResult] = []
    for _ in range(_count):
        _partitions_item, pos = _read_alter_replica_log_dir_partition_result(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterReplicaLogDirTopicResult(topic_name, partitions), pos


def _write_alter_replica_log_dir_topic_result(put: Put, m: AlterReplicaLogDirTopicResult, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.topic_name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_alter_replica_log_dir_partition_result(put, item_partitions, version)
    if flex:
        put(b"\0")


class AlterReplicaLogDirsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = []


def _read_alter_replica_log_dirs_response(buf: Buffer, pos: int, version: int) -> tuple[AlterReplicaLogDirsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results: list[AlterReplicaLogDirTopicResult] = []
    for _ in range(_count):
        _results_item, pos = _read_alter_replica_log_dir_topic_result(buf, pos, version)
        results.append(_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterReplicaLogDirsResponse(throttle_time_ms, results), pos


def _write_alter_replica_log_dirs_response(put: Put, m: AlterReplicaLogDirsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.results) + 1) if flex else length(len(m.results)))
    for item_results in m.results:
        _write_alter_replica_log_dir_topic_result(put, item_results, version)
    if flex:
        put(b"\0")


decode_request = _read_alter_replica_log_dirs_request
encode_request = _write_alter_replica_log_dirs_request
decode_response = _read_alter_replica_log_dirs_response
encode_response = _write_alter_replica_log_dirs_response
