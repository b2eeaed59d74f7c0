"""DescribeQuorum: generated from protocol/schemas/describe_quorum.schema by protocol.codegen; do not edit."""

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
_fmt_H = _Struct(">H")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_iiq = _Struct(">iiq")
_fmt_q = _Struct(">q")
_fmt_qq = _Struct(">qq")

API_KEY = 55

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
    topic_name: str = ""
    partitions: list[PartitionData] = []


def _read_topic_data(buf: Buffer, pos: int, version: int) -> tuple[TopicData, int]:
    topic_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[PartitionData] = []
    for _ in range(_count):
        _partitions_item, pos = _read_partition_data(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicData(topic_name, partitions), pos


def _write_topic_data(put: Put, m: TopicData, version: int) -> None:
    put(compact_string(m.topic_name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class DescribeQuorumRequest(msgspec.Struct, gc=False):
    topics: list[TopicData] = []


def _read_describe_quorum_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeQuorumRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeQuorumRequest(topics), pos


def _write_describe_quorum_request(put: Put, m: DescribeQuorumRequest, version: int) -> None:
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_data(put, item_topics, version)
    put(b"\0")


class ReplicaState(msgspec.Struct, gc=False):
    replica_id: int = 0
    replica_directory_id: bytes = NO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


def _read_replica_state(buf: Buffer, pos: int, version: int) -> tuple[ReplicaState, int]:
    (replica_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    replica_directory_id: bytes = NO_UUID
    if version >= 2:
        (replica_directory_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    (log_end_offset,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1
    if version >= 1:
        last_fetch_timestamp, last_caught_up_timestamp = _fmt_qq.unpack_from(buf, pos)
        pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ReplicaState(replica_id, replica_directory_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp), pos


def _write_replica_state(put: Put, m: ReplicaState, version: int) -> None:
    put(_fmt_i.pack(m.replica_id))
    if version >= 2:
        put(_fmt_U_.pack(m.replica_directory_id))
    put(_fmt_q.pack(m.log_end_offset))
    if version >= 1:
        put(_fmt_qq.pack(m.last_fetch_timestamp, m.last_caught_up_timestamp))
    put(b"\0")


class ResponsePartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


def _read_response_partition_data(buf: Buffer, pos: int, version: int) -> tuple[ResponsePartitionData, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message: str | None = ""
    if version >= 2:
        error_message, pos = read_compact_nullable_string(buf, pos)
    leader_id, leader_epoch, high_watermark = _fmt_iiq.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    current_voters: list[ReplicaState] = []
    for _ in range(_count):
        _current_voters_item, pos = _read_replica_state(buf, pos, version)
        current_voters.append(_current_voters_item)
    _count, pos = read_compact_length(buf, pos)
    observers: list[ReplicaState] = []
    for _ in range(_count):
        _observers_item, pos = _read_replica_state(buf, pos, version)
        observers.append(_observers_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponsePartitionData(partition_index, error_code, error_message, leader_id, leader_epoch, high_watermark, current_voters, observers), pos


def _write_response_partition_data(put: Put, m: ResponsePartitionData, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    if version >= 2:
        put(compact_string(m.error_message))
    put(_fmt_iiq.pack(m.leader_id, m.leader_epoch, m.high_watermark))
    put(uvarint(len(m.current_voters) + 1))
    for item_current_voters in m.current_voters:
        _write_replica_state(put, item_current_voters, version)
    put(uvarint(len(m.observers) + 1))
    for item_observers in m.observers:
        _write_replica_state(put, item_observers, version)
    put(b"\0")


class ResponseTopicData(msgspec.Struct, gc=False):
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = []


def _read_response_topic_data(buf: Buffer, pos: int, version: int) -> tuple[ResponseTopicData, int]:
    topic_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[ResponsePartitionData] = []
    for _ in range(_count):
        _partitions_item, pos = _read_response_partition_data(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponseTopicData(topic_name, partitions), pos


def _write_response_topic_data(put: Put, m: ResponseTopicData, version: int) -> None:
    put(compact_string(m.topic_name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_response_partition_data(put, item_partitions, version)
    put(b"\0")


class Listener(msgspec.Struct, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0


def _read_listener(buf: Buffer, pos: int, version: int) -> tuple[Listener, int]:
    name: str = ""
    if version >= 2:
        name, pos = read_compact_string(buf, pos)
    host: str = ""
    if version >= 2:
        host, pos = read_compact_string(buf, pos)
    port: int = 0
    if version >= 2:
        (port,) = _fmt_H.unpack_from(buf, pos)
        pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Listener(name, host, port), pos


def _write_listener(put: Put, m: Listener, version: int) -> None:
    if version >= 2:
        put(compact_string(m.name))
    if version >= 2:
        put(compact_string(m.host))
    if version >= 2:
        put(_fmt_H.pack(m.port))
    put(b"\0")


class Node(msgspec.Struct, gc=False):
    node_id: int = 0
    listeners: list[Listener] = []


def _read_node(buf: Buffer, pos: int, version: int) -> tuple[Node, int]:
    node_id: int = 0
    if version >= 2:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    listeners: list[Listener] = []
    if version >= 2:
        _count, pos = read_compact_length(buf, pos)
        listeners = []
        for _ in range(_count):
            _listeners_item, pos = _read_listener(buf, pos, version)
            listeners.append(_listeners_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Node(node_id, listeners), pos


def _write_node(put: Put, m: Node, version: int) -> None:
    if version >= 2:
        put(_fmt_i.pack(m.node_id))
    if version >= 2:
        put(uvarint(len(m.listeners) + 1))
        for item_listeners in m.listeners:
            _write_listener(put, item_listeners, version)
    put(b"\0")


class DescribeQuorumResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    topics: list[ResponseTopicData] = []
    nodes: list[Node] = []


def _read_describe_quorum_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeQuorumResponse, int]:
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message: str | None = ""
    if version >= 2:
        error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[ResponseTopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_response_topic_data(buf, pos, version)
        topics.append(_topics_item)
    nodes: list[Node] = []
    if version >= 2:
        _count, pos = read_compact_length(buf, pos)
        nodes = []
        for _ in range(_count):
            _nodes_item, pos = _read_node(buf, pos, version)
            nodes.append(_nodes_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeQuorumResponse(error_code, error_message, topics, nodes), pos


def _write_describe_quorum_response(put: Put, m: DescribeQuorumResponse, version: int) -> None:
    put(_fmt_h.pack(m.error_code))
    if version >= 2:
        put(compact_string(m.error_message))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_response_topic_data(put, item_topics, version)
    if version >= 2:
        put(uvarint(len(m.nodes) + 1))
        for item_nodes in m.nodes:
            _write_node(put, item_nodes, version)
    put(b"\0")


decode_request = _read_describe_quorum_request
encode_request = _write_describe_quorum_request
decode_response = _read_describe_quorum_response
encode_response = _write_describe_quorum_response
