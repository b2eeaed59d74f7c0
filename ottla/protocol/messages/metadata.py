"""Metadata: generated from protocol/schemas/metadata.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_B_ = _Struct(">?")
_fmt_h = _Struct(">h")
_fmt_hii = _Struct(">hii")
_fmt_i = _Struct(">i")

API_KEY = 3

class MetadataRequestTopic(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    name: str | None = ""


def _read_metadata_request_topic(buf: Buffer, pos: int, version: int) -> tuple[MetadataRequestTopic, int]:
    flex = version >= 9
    topic_id: bytes = NO_UUID
    if version >= 10:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MetadataRequestTopic(topic_id, name), pos


def _write_metadata_request_topic(put: Put, m: MetadataRequestTopic, version: int) -> None:
    flex = version >= 9
    if version >= 10:
        put(_fmt_U_.pack(m.topic_id))
    put((compact_string if flex else string)(m.name))
    if flex:
        put(b"\0")


class MetadataRequest(msgspec.Struct, gc=False):
    topics: list[MetadataRequestTopic] | None = []
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


def _read_metadata_request(buf: Buffer, pos: int, version: int) -> tuple[MetadataRequest, int]:
    flex = version >= 9
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    topics: list[MetadataRequestTopic] | None = None
    if _count >= 0:
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_metadata_request_topic(buf, pos, version)
            topics.append(_topics_item)
    allow_auto_topic_creation: bool = True
    if version >= 4:
        (allow_auto_topic_creation,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    include_cluster_authorized_operations: bool = False
    if version >= 8 and version <= 10:
        (include_cluster_authorized_operations,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    include_topic_authorized_operations: bool = False
    if version >= 8:
        (include_topic_authorized_operations,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MetadataRequest(topics, allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations), pos


def _write_metadata_request(put: Put, m: MetadataRequest, version: int) -> None:
    flex = version >= 9
    if m.topics is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
        for item_topics in m.topics:
            _write_metadata_request_topic(put, item_topics, version)
    if version >= 4:
        put(_fmt_B_.pack(m.allow_auto_topic_creation))
    if version >= 8 and version <= 10:
        put(_fmt_B_.pack(m.include_cluster_authorized_operations))
    if version >= 8:
        put(_fmt_B_.pack(m.include_topic_authorized_operations))
    if flex:
        put(b"\0")


class MetadataResponseBroker(msgspec.Struct, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


def _read_metadata_response_broker(buf: Buffer, pos: int, version: int) -> tuple[MetadataResponseBroker, int]:
    flex = version >= 9
    (node_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    host, pos = (read_compact_string if flex else read_string)(buf, pos)
    (port,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    rack: str | None = None
    if version >= 1:
        rack, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MetadataResponseBroker(node_id, host, port, rack), pos


def _write_metadata_response_broker(put: Put, m: MetadataResponseBroker, version: int) -> None:
    flex = version >= 9
    put(_fmt_i.pack(m.node_id))
    put((compact_string if flex else string)(m.host))
    put(_fmt_i.pack(m.port))
    if version >= 1:
        put((compact_string if flex else string)(m.rack))
    if flex:
        put(b"\0")


class MetadataResponsePartition(msgspec.Struct, gc=False):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    offline_replicas: list[int] = []


def _read_metadata_response_partition(buf: Buffer, pos: int, version: int) -> tuple[MetadataResponsePartition, int]:
    flex = version >= 9
    error_code, partition_index, leader_id = _fmt_hii.unpack_from(buf, pos)
    pos += 10
    leader_epoch: int = -1
    if version >= 7:
        (leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    replica_nodes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    isr_nodes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    offline_replicas: list[int] = []
    if version >= 5:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        offline_replicas = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MetadataResponsePartition(error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, offline_replicas), pos


def _write_metadata_response_partition(put: Put, m: MetadataResponsePartition, version: int) -> None:
    flex = version >= 9
    put(_fmt_hii.pack(m.error_code, m.partition_index, m.leader_id))
    if version >= 7:
        put(_fmt_i.pack(m.leader_epoch))
    put(uvarint(len(m.replica_nodes) + 1) if flex else length(len(m.replica_nodes)))
    put(pack(f">{len(m.replica_nodes)}i", *m.replica_nodes))
    put(uvarint(len(m.isr_nodes) + 1) if flex else length(len(m.isr_nodes)))
    put(pack(f">{len(m.isr_nodes)}i", *m.isr_nodes))
    if version >= 5:
        put(uvarint(len(m.offline_replicas) + 1) if flex else length(len(m.offline_replicas)))
        put(pack(f">{len(m.offline_replicas)}i", *m.offline_replicas))
    if flex:
        put(b"\0")


class MetadataResponseTopic(msgspec.Struct, gc=False):
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = NO_UUID
    is_internal: bool = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: int = -2147483648


def _read_metadata_response_topic(buf: Buffer, pos: int, version: int) -> tuple[MetadataResponseTopic, int]:
    flex = version >= 9
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 10:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    is_internal: bool = False
    if version >= 1:
        (is_internal,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[MetadataResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_metadata_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    topic_authorized_operations: int = -2147483648
    if version >= 8:
        (topic_authorized_operations,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MetadataResponseTopic(error_code, name, topic_id, is_internal, partitions, topic_authorized_operations), pos


def _write_metadata_response_topic(put: Put, m: MetadataResponseTopic, version: int) -> None:
    flex = version >= 9
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.name))
    if version >= 10:
        put(_fmt_U_.pack(m.topic_id))
    if version >= 1:
        put(_fmt_B_.pack(m.is_internal))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_metadata_response_partition(put, item_partitions, version)
    if version >= 8:
        put(_fmt_i.pack(m.topic_authorized_operations))
    if flex:
        put(b"\0")


class MetadataResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0


def _read_metadata_response(buf: Buffer, pos: int, version: int) -> tuple[MetadataResponse, int]:
    flex = version >= 9
    throttle_time_ms: int = 0
    if version >= 3:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    brokers: list[MetadataResponseBroker] = []
    for _ in range(_count):
        _brokers_item, pos = _read_metadata_response_broker(buf, pos, version)
        brokers.append(_brokers_item)
    cluster_id: str | None = None
    if version >= 2:
        cluster_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    controller_id: int = -1
    if version >= 1:
        (controller_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[MetadataResponseTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_metadata_response_topic(buf, pos, version)
        topics.append(_topics_item)
    cluster_authorized_operations: int = -2147483648
    if version >= 8 and version <= 10:
        (cluster_authorized_operations,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    error_code: int = 0
    if version >= 13:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MetadataResponse(throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations, error_code), pos


def _write_metadata_response(put: Put, m: MetadataResponse, version: int) -> None:
    flex = version >= 9
    if version >= 3:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.brokers) + 1) if flex else length(len(m.brokers)))
    for item_brokers in m.brokers:
        _write_metadata_response_broker(put, item_brokers, version)
    if version >= 2:
        put((compact_string if flex else string)(m.cluster_id))
    if version >= 1:
        put(_fmt_i.pack(m.controller_id))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_metadata_response_topic(put, item_topics, version)
    if version >= 8 and version <= 10:
        put(_fmt_i.pack(m.cluster_authorized_operations))
    if version >= 13:
        put(_fmt_h.pack(m.error_code))
    if flex:
        put(b"\0")


decode_request = _read_metadata_request
encode_request = _write_metadata_request
decode_response = _read_metadata_response
encode_response = _write_metadata_response
