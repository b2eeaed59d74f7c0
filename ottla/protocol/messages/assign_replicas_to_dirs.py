"""AssignReplicasToDirs: generated from protocol/schemas/assign_replicas_to_dirs.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    read_compact_length,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_iq = _Struct(">iq")

API_KEY = 73

class PartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionData(partition_index), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    put(_fmt_i.pack(m.partition_index))
    put(b"\0")


class TopicData(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_topic_data(buf: Buffer, pos: int, version: int) -> tuple[TopicData, int]:
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
    return TopicData(topic_id, partitions), pos


def _write_topic_data(put: Put, m: TopicData, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class DirectoryData(msgspec.Struct, gc=False):
    id: bytes = NO_UUID
    topics: list[TopicData] = []


def _read_directory_data(buf: Buffer, pos: int, version: int) -> tuple[DirectoryData, int]:
    (id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DirectoryData(id, topics), pos


def _write_directory_data(put: Put, m: DirectoryData, version: int) -> None:
    put(_fmt_U_.pack(m.id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_data(put, item_topics, version)
    put(b"\0")


class AssignReplicasToDirsRequest(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = -1
    directories: list[DirectoryData] = []


def _read_assign_replicas_to_dirs_request(buf: Buffer, pos: int, version: int) -> tuple[AssignReplicasToDirsRequest, int]:
    broker_id, broker_epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    _count, pos = read_compact_length(buf, pos)
    directories: list[DirectoryData] = []
    for _ in range(_count):
        _directories_item, pos = _read_directory_data(buf, pos, version)
        directories.append(_directories_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AssignReplicasToDirsRequest(broker_id, broker_epoch, directories), pos


def _write_assign_replicas_to_dirs_request(put: Put, m: AssignReplicasToDirsRequest, version: int) -> None:
    put(_fmt_iq.pack(m.broker_id, m.broker_epoch))
    put(uvarint(len(m.directories) + 1))
    for item_directories in m.directories:
        _write_directory_data(put, item_directories, version)
    put(b"\0")


class ResponsePartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0


def _read_response_partition_data(buf: Buffer, pos: int, version: int) -> tuple[ResponsePartitionData, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponsePartitionData(partition_index, error_code), pos


def _write_response_partition_data(put: Put, m: ResponsePartitionData, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    put(b"\0")


class ResponseTopicData(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[ResponsePartitionData] = []


def _read_response_topic_data(buf: Buffer, pos: int, version: int) -> tuple[ResponseTopicData, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[ResponsePartitionData] = []
    for _ in range(_count):
        _partitions_item, pos = _read_response_partition_data(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponseTopicData(topic_id, partitions), pos


def _write_response_topic_data(put: Put, m: ResponseTopicData, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_response_partition_data(put, item_partitions, version)
    put(b"\0")


class ResponseDirectoryData(msgspec.Struct, gc=False):
    id: bytes = NO_UUID
    topics: list[ResponseTopicData] = []


def _read_response_directory_data(buf: Buffer, pos: int, version: int) -> tuple[ResponseDirectoryData, int]:
    (id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    topics: list[ResponseTopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_response_topic_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponseDirectoryData(id, topics), pos


def _write_response_directory_data(put: Put, m: ResponseDirectoryData, version: int) -> None:
    put(_fmt_U_.pack(m.id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_response_topic_data(put, item_topics, version)
    put(b"\0")


class AssignReplicasToDirsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    directories: list[ResponseDirectoryData] = []


def _read_assign_replicas_to_dirs_response(buf: Buffer, pos: int, version: int) -> tuple[AssignReplicasToDirsResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    directories: list[ResponseDirectoryData] = []
    for _ in range(_count):
        _directories_item, pos = _read_response_directory_data(buf, pos, version)
        directories.append(_directories_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AssignReplicasToDirsResponse(throttle_time_ms, error_code, directories), pos


def _write_assign_replicas_to_dirs_response(put: Put, m: AssignReplicasToDirsResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(uvarint(len(m.directories) + 1))
    for item_directories in m.directories:
        _write_response_directory_data(put, item_directories, version)
    put(b"\0")


decode_request = _read_assign_replicas_to_dirs_request
encode_request = _write_assign_replicas_to_dirs_request
decode_response = _read_assign_replicas_to_dirs_response
encode_response = _write_assign_replicas_to_dirs_response
