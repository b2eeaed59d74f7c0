"""ShareFetch: generated from protocol/schemas/share_fetch.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_bytes_length,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_records,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_bB_ = _Struct(">b?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_ii = _Struct(">ii")
_fmt_iiiiii = _Struct(">iiiiii")
_fmt_qq = _Struct(">qq")
_fmt_qqh = _Struct(">qqh")

API_KEY = 78

class AcknowledgementBatch(msgspec.Struct, gc=False):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = []


def _read_acknowledgement_batch(buf: Buffer, pos: int, version: int) -> tuple[AcknowledgementBatch, int]:
    first_offset, last_offset = _fmt_qq.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    acknowledge_types: list[int] = list(unpack_from(f">{_count}b", buf, pos))
    pos += 1 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AcknowledgementBatch(first_offset, last_offset, acknowledge_types), pos


def _write_acknowledgement_batch(put: Put, m: AcknowledgementBatch, version: int) -> None:
    put(_fmt_qq.pack(m.first_offset, m.last_offset))
    put(uvarint(len(m.acknowledge_types) + 1))
    put(pack(f">{len(m.acknowledge_types)}b", *m.acknowledge_types))
    put(b"\0")


class FetchPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


def _read_fetch_partition(buf: Buffer, pos: int, version: int) -> tuple[FetchPartition, int]:
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    acknowledgement_batches: list[AcknowledgementBatch] = []
    for _ in range(_count):
        _acknowledgement_batches_item, pos = _read_acknowledgement_batch(buf, pos, version)
        acknowledgement_batches.append(_acknowledgement_batches_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return FetchPartition(partition_index, acknowledgement_batches), pos


def _write_fetch_partition(put: Put, m: FetchPartition, version: int) -> None:
    put(_fmt_i.pack(m.partition_index))
    put(uvarint(len(m.acknowledgement_batches) + 1))
    for item_acknowledgement_batches in m.acknowledgement_batches:
        _write_acknowledgement_batch(put, item_acknowledgement_batches, version)
    put(b"\0")


class FetchTopic(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[FetchPartition] = []


def _read_fetch_topic(buf: Buffer, pos: int, version: int) -> tuple[FetchTopic, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[FetchPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_fetch_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return FetchTopic(topic_id, partitions), pos


def _write_fetch_topic(put: Put, m: FetchTopic, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_fetch_partition(put, item_partitions, version)
    put(b"\0")


class ForgottenTopic(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[int] = []


def _read_forgotten_topic(buf: Buffer, pos: int, version: int) -> tuple[ForgottenTopic, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ForgottenTopic(topic_id, partitions), pos


def _write_forgotten_topic(put: Put, m: ForgottenTopic, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class ShareFetchRequest(msgspec.Struct, gc=False):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []


def _read_share_fetch_request(buf: Buffer, pos: int, version: int) -> tuple[ShareFetchRequest, int]:
    group_id, pos = read_compact_nullable_string(buf, pos)
    member_id, pos = read_compact_nullable_string(buf, pos)
    share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size = _fmt_iiiiii.unpack_from(buf, pos)
    pos += 24
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    if version >= 2:
        share_acquire_mode, is_renew_ack = _fmt_bB_.unpack_from(buf, pos)
        pos += 2
    _count, pos = read_compact_length(buf, pos)
    topics: list[FetchTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_fetch_topic(buf, pos, version)
        topics.append(_topics_item)
    _count, pos = read_compact_length(buf, pos)
    forgotten_topics_data: list[ForgottenTopic] = []
    for _ in range(_count):
        _forgotten_topics_data_item, pos = _read_forgotten_topic(buf, pos, version)
        forgotten_topics_data.append(_forgotten_topics_data_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareFetchRequest(group_id, member_id, share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size, share_acquire_mode, is_renew_ack, topics, forgotten_topics_data), pos


def _write_share_fetch_request(put: Put, m: ShareFetchRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(compact_string(m.member_id))
    put(_fmt_iiiiii.pack(m.share_session_epoch, m.max_wait_ms, m.min_bytes, m.max_bytes, m.max_records, m.batch_size))
    if version >= 2:
        put(_fmt_bB_.pack(m.share_acquire_mode, m.is_renew_ack))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_fetch_topic(put, item_topics, version)
    put(uvarint(len(m.forgotten_topics_data) + 1))
    for item_forgotten_topics_data in m.forgotten_topics_data:
        _write_forgotten_topic(put, item_forgotten_topics_data, version)
    put(b"\0")


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


class AcquiredRecords(msgspec.Struct, gc=False):
    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0


def _read_acquired_records(buf: Buffer, pos: int, version: int) -> tuple[AcquiredRecords, int]:
    first_offset, last_offset, delivery_count = _fmt_qqh.unpack_from(buf, pos)
    pos += 18
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AcquiredRecords(first_offset, last_offset, delivery_count), pos


def _write_acquired_records(put: Put, m: AcquiredRecords, version: int) -> None:
    put(_fmt_qqh.pack(m.first_offset, m.last_offset, m.delivery_count))
    put(b"\0")


class PartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = msgspec.field(default_factory=LeaderIdAndEpoch)
    records: Buffer | None = None
    acquired_records: list[AcquiredRecords] = []


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    (acknowledge_error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    acknowledge_error_message, pos = read_compact_nullable_string(buf, pos)
    current_leader, pos = _read_leader_id_and_epoch(buf, pos, version)
    records, pos = read_compact_records(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    acquired_records: list[AcquiredRecords] = []
    for _ in range(_count):
        _acquired_records_item, pos = _read_acquired_records(buf, pos, version)
        acquired_records.append(_acquired_records_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionData(partition_index, error_code, error_message, acknowledge_error_code, acknowledge_error_message, current_leader, records, acquired_records), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    put(compact_string(m.error_message))
    put(_fmt_h.pack(m.acknowledge_error_code))
    put(compact_string(m.acknowledge_error_message))
    _write_leader_id_and_epoch(put, m.current_leader, version)
    put(compact_bytes_length(m.records))
    if m.records is not None:
        put(m.records)
    put(uvarint(len(m.acquired_records) + 1))
    for item_acquired_records in m.acquired_records:
        _write_acquired_records(put, item_acquired_records, version)
    put(b"\0")


class ShareFetchableTopicResponse(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_share_fetchable_topic_response(buf: Buffer, pos: int, version: int) -> tuple[ShareFetchableTopicResponse, int]:
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
    return ShareFetchableTopicResponse(topic_id, partitions), pos


def _write_share_fetchable_topic_response(put: Put, m: ShareFetchableTopicResponse, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    put(b"\0")


class NodeEndpoint(msgspec.Struct, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


def _read_node_endpoint(buf: Buffer, pos: int, version: int) -> tuple[NodeEndpoint, int]:
    (node_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    host, pos = read_compact_string(buf, pos)
    (port,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    rack, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return NodeEndpoint(node_id, host, port, rack), pos


def _write_node_endpoint(put: Put, m: NodeEndpoint, version: int) -> None:
    put(_fmt_i.pack(m.node_id))
    put(compact_string(m.host))
    put(_fmt_i.pack(m.port))
    put(compact_string(m.rack))
    put(b"\0")


class ShareFetchResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


def _read_share_fetch_response(buf: Buffer, pos: int, version: int) -> tuple[ShareFetchResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    (acquisition_lock_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    responses: list[ShareFetchableTopicResponse] = []
    for _ in range(_count):
        _responses_item, pos = _read_share_fetchable_topic_response(buf, pos, version)
        responses.append(_responses_item)
    _count, pos = read_compact_length(buf, pos)
    node_endpoints: list[NodeEndpoint] = []
    for _ in range(_count):
        _node_endpoints_item, pos = _read_node_endpoint(buf, pos, version)
        node_endpoints.append(_node_endpoints_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareFetchResponse(throttle_time_ms, error_code, error_message, acquisition_lock_timeout_ms, responses, node_endpoints), pos


def _write_share_fetch_response(put: Put, m: ShareFetchResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(_fmt_i.pack(m.acquisition_lock_timeout_ms))
    put(uvarint(len(m.responses) + 1))
    for item_responses in m.responses:
        _write_share_fetchable_topic_response(put, item_responses, version)
    put(uvarint(len(m.node_endpoints) + 1))
    for item_node_endpoints in m.node_endpoints:
        _write_node_endpoint(put, item_node_endpoints, version)
    put(b"\0")


decode_request = _read_share_fetch_request
encode_request = _write_share_fetch_request
decode_response = _read_share_fetch_response
encode_response = _write_share_fetch_response
