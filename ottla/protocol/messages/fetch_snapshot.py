"""FetchSnapshot: generated from protocol/schemas/fetch_snapshot.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_bytes_length,
    compact_string,
    put_tags,
    read_compact_bytes,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_BBU_ = _Struct(">BB16s")
_fmt_H = _Struct(">H")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_ii = _Struct(">ii")
_fmt_q = _Struct(">q")
_fmt_qi = _Struct(">qi")
_fmt_qq = _Struct(">qq")

API_KEY = 59

class SnapshotId(msgspec.Struct, gc=False):
    end_offset: int = 0
    epoch: int = 0


def _read_snapshot_id(buf: Buffer, pos: int, version: int) -> tuple[SnapshotId, int]:
    end_offset, epoch = _fmt_qi.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return SnapshotId(end_offset, epoch), pos


def _write_snapshot_id(put: Put, m: SnapshotId, version: int) -> None:
    put(_fmt_qi.pack(m.end_offset, m.epoch))
    put(b"\0")


class PartitionSnapshot(msgspec.Struct, gc=False):
    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: SnapshotId = msgspec.field(default_factory=SnapshotId)
    position: int = 0
    replica_directory_id: bytes = NO_UUID


def _read_partition_snapshot(buf: Buffer, pos: int, version: int) -> tuple[PartitionSnapshot, int]:
    partition, current_leader_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    snapshot_id, pos = _read_snapshot_id(buf, pos, version)
    (position,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    replica_directory_id: bytes = NO_UUID
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (replica_directory_id,) = _fmt_U_.unpack_from(buf, pos)
            pos += 16
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return PartitionSnapshot(partition, current_leader_epoch, snapshot_id, position, replica_directory_id), pos


def _write_partition_snapshot(put: Put, m: PartitionSnapshot, version: int) -> None:
    put(_fmt_ii.pack(m.partition, m.current_leader_epoch))
    _write_snapshot_id(put, m.snapshot_id, version)
    put(_fmt_q.pack(m.position))
    _tags: list[Buffer] = []
    if version >= 1 and m.replica_directory_id != NO_UUID:
        _tags.append(_fmt_BBU_.pack(0, 16, m.replica_directory_id))
    put_tags(put, _tags)


class TopicSnapshot(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[PartitionSnapshot] = []


def _read_topic_snapshot(buf: Buffer, pos: int, version: int) -> tuple[TopicSnapshot, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[PartitionSnapshot] = []
    for _ in range(_count):
        _partitions_item, pos = _read_partition_snapshot(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicSnapshot(name, partitions), pos


def _write_topic_snapshot(put: Put, m: TopicSnapshot, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_snapshot(put, item_partitions, version)
    put(b"\0")


class FetchSnapshotRequest(msgspec.Struct, gc=False):
    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: list[TopicSnapshot] = []


def _read_fetch_snapshot_request(buf: Buffer, pos: int, version: int) -> tuple[FetchSnapshotRequest, int]:
    replica_id, max_bytes = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicSnapshot] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_snapshot(buf, pos, version)
        topics.append(_topics_item)
    cluster_id: str | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            cluster_id, pos = read_compact_nullable_string(buf, pos)
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return FetchSnapshotRequest(cluster_id, replica_id, max_bytes, topics), pos


def _write_fetch_snapshot_request(put: Put, m: FetchSnapshotRequest, version: int) -> None:
    put(_fmt_ii.pack(m.replica_id, m.max_bytes))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_snapshot(put, item_topics, version)
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.cluster_id is not None:
        _parts = []
        _parts.append(compact_string(m.cluster_id))
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


class LeaderIdAndEpoch(msgspec.Struct, gc=False):
    leader_id: int = 0
    leader_epoch: int = 0


def _read_leader_id_and_epoch(buf: Buffer, pos: int, version: int) -> tuple[LeaderIdAndEpoch, int]:
    leader_id, leader_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return LeaderIdAndEpoch(leader_id, leader_epoch), pos


def _write_leader_id_and_epoch(put: Put, m: LeaderIdAndEpoch, version: int) -> None:
    put(_fmt_ii.pack(m.leader_id, m.leader_epoch))
    put(b"\0")


class ResponsePartitionSnapshot(msgspec.Struct, gc=False):
    index: int = 0
    error_code: int = 0
    snapshot_id: SnapshotId = msgspec.field(default_factory=SnapshotId)
    current_leader: LeaderIdAndEpoch | None = None
    size: int = 0
    position: int = 0
    unaligned_records: Buffer = b""


def _read_response_partition_snapshot(buf: Buffer, pos: int, version: int) -> tuple[ResponsePartitionSnapshot, int]:
    index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    snapshot_id, pos = _read_snapshot_id(buf, pos, version)
    size, position = _fmt_qq.unpack_from(buf, pos)
    pos += 16
    unaligned_records, pos = read_compact_bytes(buf, pos)
    current_leader: LeaderIdAndEpoch | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            current_leader, pos = _read_leader_id_and_epoch(buf, pos, version)
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return ResponsePartitionSnapshot(index, error_code, snapshot_id, current_leader, size, position, unaligned_records), pos


def _write_response_partition_snapshot(put: Put, m: ResponsePartitionSnapshot, version: int) -> None:
    put(_fmt_ih.pack(m.index, m.error_code))
    _write_snapshot_id(put, m.snapshot_id, version)
    put(_fmt_qq.pack(m.size, m.position))
    put(compact_bytes_length(m.unaligned_records))
    put(m.unaligned_records)
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.current_leader is not None:
        _parts = []
        _write_leader_id_and_epoch(_parts.append, m.current_leader, version)
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


class ResponseTopicSnapshot(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[ResponsePartitionSnapshot] = []


def _read_response_topic_snapshot(buf: Buffer, pos: int, version: int) -> tuple[ResponseTopicSnapshot, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[ResponsePartitionSnapshot] = []
    for _ in range(_count):
        _partitions_item, pos = _read_response_partition_snapshot(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponseTopicSnapshot(name, partitions), pos


def _write_response_topic_snapshot(put: Put, m: ResponseTopicSnapshot, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_response_partition_snapshot(put, item_partitions, version)
    put(b"\0")


class NodeEndpoint(msgspec.Struct, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0


def _read_node_endpoint(buf: Buffer, pos: int, version: int) -> tuple[NodeEndpoint, int]:
    node_id: int = 0
    if version >= 1:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    host: str = ""
    if version >= 1:
        host, pos = read_compact_string(buf, pos)
    port: int = 0
    if version >= 1:
        (port,) = _fmt_H.unpack_from(buf, pos)
        pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return NodeEndpoint(node_id, host, port), pos


def _write_node_endpoint(put: Put, m: NodeEndpoint, version: int) -> None:
    if version >= 1:
        put(_fmt_i.pack(m.node_id))
    if version >= 1:
        put(compact_string(m.host))
    if version >= 1:
        put(_fmt_H.pack(m.port))
    put(b"\0")


class FetchSnapshotResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[ResponseTopicSnapshot] = []
    node_endpoints: list[NodeEndpoint] = []


def _read_fetch_snapshot_response(buf: Buffer, pos: int, version: int) -> tuple[FetchSnapshotResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    topics: list[ResponseTopicSnapshot] = []
    for _ in range(_count):
        _topics_item, pos = _read_response_topic_snapshot(buf, pos, version)
        topics.append(_topics_item)
    node_endpoints: list[NodeEndpoint] = []
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            _count, pos = read_compact_length(buf, pos)
            node_endpoints = []
            for _ in range(_count):
                _node_endpoints_item, pos = _read_node_endpoint(buf, pos, version)
                node_endpoints.append(_node_endpoints_item)
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return FetchSnapshotResponse(throttle_time_ms, error_code, topics, node_endpoints), pos


def _write_fetch_snapshot_response(put: Put, m: FetchSnapshotResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_response_topic_snapshot(put, item_topics, version)
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if version >= 1 and m.node_endpoints:
        _parts = []
        _parts.append(uvarint(len(m.node_endpoints) + 1))
        for item_node_endpoints in m.node_endpoints:
            _write_node_endpoint(_parts.append, item_node_endpoints, version)
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


decode_request = _read_fetch_snapshot_request
encode_request = _write_fetch_snapshot_request
decode_response = _read_fetch_snapshot_response
encode_response = _write_fetch_snapshot_response
