"""Fetch: generated from protocol/schemas/fetch.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    bytes_length,
    compact_bytes_length,
    compact_string,
    length,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_records,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_nullable_string,
    read_records,
    read_string,
    read_tag,
    read_tag_count,
    skip_tags,
    string,
    tagged_field,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_BBU_ = _Struct(">BB16s")
_fmt_BBq = _Struct(">BBq")
_fmt_hi = _Struct(">hi")
_fmt_i = _Struct(">i")
_fmt_ihqq = _Struct(">ihqq")
_fmt_ii = _Struct(">ii")
_fmt_iiib = _Struct(">iiib")
_fmt_iq = _Struct(">iq")
_fmt_q = _Struct(">q")
_fmt_qi = _Struct(">qi")
_fmt_qq = _Struct(">qq")

API_KEY = 1

class ReplicaState(msgspec.Struct, gc=False):
    replica_id: int = -1
    replica_epoch: int = -1


def _read_replica_state(buf: Buffer, pos: int, version: int) -> tuple[ReplicaState, int]:
    flex = version >= 12
    replica_id: int = -1
    replica_epoch: int = -1
    if version >= 15:
        replica_id, replica_epoch = _fmt_iq.unpack_from(buf, pos)
        pos += 12
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ReplicaState(replica_id, replica_epoch), pos


def _write_replica_state(put: Put, m: ReplicaState, version: int) -> None:
    flex = version >= 12
    if version >= 15:
        put(_fmt_iq.pack(m.replica_id, m.replica_epoch))
    if flex:
        put(b"\0")


class FetchPartition(msgspec.Struct, gc=False):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = NO_UUID
    high_watermark: int = 9223372036854775807


def _read_fetch_partition(buf: Buffer, pos: int, version: int) -> tuple[FetchPartition, int]:
    flex = version >= 12
    (partition,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    current_leader_epoch: int = -1
    if version >= 9:
        (current_leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (fetch_offset,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    last_fetched_epoch: int = -1
    if version >= 12:
        (last_fetched_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    log_start_offset: int = -1
    if version >= 5:
        (log_start_offset,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    (partition_max_bytes,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    replica_directory_id: bytes = NO_UUID
    high_watermark: int = 9223372036854775807
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                (replica_directory_id,) = _fmt_U_.unpack_from(buf, pos)
                pos += 16
            elif _tag == 1:
                (high_watermark,) = _fmt_q.unpack_from(buf, pos)
                pos += 8
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return FetchPartition(partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes, replica_directory_id, high_watermark), pos


def _write_fetch_partition(put: Put, m: FetchPartition, version: int) -> None:
    flex = version >= 12
    put(_fmt_i.pack(m.partition))
    if version >= 9:
        put(_fmt_i.pack(m.current_leader_epoch))
    put(_fmt_q.pack(m.fetch_offset))
    if version >= 12:
        put(_fmt_i.pack(m.last_fetched_epoch))
    if version >= 5:
        put(_fmt_q.pack(m.log_start_offset))
    put(_fmt_i.pack(m.partition_max_bytes))
    if flex:
        _tags: list[Buffer] = []
        if version >= 17 and m.replica_directory_id != NO_UUID:
            _tags.append(_fmt_BBU_.pack(0, 16, m.replica_directory_id))
        if version >= 18 and m.high_watermark != 9223372036854775807:
            _tags.append(_fmt_BBq.pack(1, 8, m.high_watermark))
        put_tags(put, _tags)


class FetchTopic(msgspec.Struct, gc=False):
    topic: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[FetchPartition] = []


def _read_fetch_topic(buf: Buffer, pos: int, version: int) -> tuple[FetchTopic, int]:
    flex = version >= 12
    topic: str = ""
    if version <= 12:
        topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 13:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[FetchPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_fetch_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return FetchTopic(topic, topic_id, partitions), pos


def _write_fetch_topic(put: Put, m: FetchTopic, version: int) -> None:
    flex = version >= 12
    if version <= 12:
        put((compact_string if flex else string)(m.topic))
    if version >= 13:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_fetch_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class ForgottenTopic(msgspec.Struct, gc=False):
    topic: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[int] = []


def _read_forgotten_topic(buf: Buffer, pos: int, version: int) -> tuple[ForgottenTopic, int]:
    flex = version >= 12
    topic: str = ""
    if version >= 7 and version <= 12:
        topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 13:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    partitions: list[int] = []
    if version >= 7:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        partitions = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ForgottenTopic(topic, topic_id, partitions), pos


def _write_forgotten_topic(put: Put, m: ForgottenTopic, version: int) -> None:
    flex = version >= 12
    if version >= 7 and version <= 12:
        put((compact_string if flex else string)(m.topic))
    if version >= 13:
        put(_fmt_U_.pack(m.topic_id))
    if version >= 7:
        put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
        put(pack(f">{len(m.partitions)}i", *m.partitions))
    if flex:
        put(b"\0")


class FetchRequest(msgspec.Struct, gc=False):
    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []
    rack_id: str = ""


def _read_fetch_request(buf: Buffer, pos: int, version: int) -> tuple[FetchRequest, int]:
    flex = version >= 12
    replica_id: int = -1
    if version <= 14:
        (replica_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _fmt_iiib.unpack_from(buf, pos)
    pos += 13
    session_id: int = 0
    session_epoch: int = -1
    if version >= 7:
        session_id, session_epoch = _fmt_ii.unpack_from(buf, pos)
        pos += 8
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[FetchTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_fetch_topic(buf, pos, version)
        topics.append(_topics_item)
    forgotten_topics_data: list[ForgottenTopic] = []
    if version >= 7:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        forgotten_topics_data = []
        for _ in range(_count):
            _forgotten_topics_data_item, pos = _read_forgotten_topic(buf, pos, version)
            forgotten_topics_data.append(_forgotten_topics_data_item)
    rack_id: str = ""
    if version >= 11:
        rack_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    cluster_id: str | None = None
    replica_state: ReplicaState | None = None
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                cluster_id, pos = read_compact_nullable_string(buf, pos)
            elif _tag == 1:
                replica_state, pos = _read_replica_state(buf, pos, version)
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return FetchRequest(cluster_id, replica_id, replica_state, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten_topics_data, rack_id), pos


def _write_fetch_request(put: Put, m: FetchRequest, version: int) -> None:
    flex = version >= 12
    if version <= 14:
        put(_fmt_i.pack(m.replica_id))
    put(_fmt_iiib.pack(m.max_wait_ms, m.min_bytes, m.max_bytes, m.isolation_level))
    if version >= 7:
        put(_fmt_ii.pack(m.session_id, m.session_epoch))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_fetch_topic(put, item_topics, version)
    if version >= 7:
        put(uvarint(len(m.forgotten_topics_data) + 1) if flex else length(len(m.forgotten_topics_data)))
        for item_forgotten_topics_data in m.forgotten_topics_data:
            _write_forgotten_topic(put, item_forgotten_topics_data, version)
    if version >= 11:
        put((compact_string if flex else string)(m.rack_id))
    if flex:
        _tags: list[Buffer] = []
        _parts: list[Buffer]
        if m.cluster_id is not None:
            _parts = []
            _parts.append(compact_string(m.cluster_id))
            _tags.append(tagged_field(0, _parts))
        if version >= 15 and m.replica_state is not None:
            _parts = []
            _write_replica_state(_parts.append, m.replica_state, version)
            _tags.append(tagged_field(1, _parts))
        put_tags(put, _tags)


class EpochEndOffset(msgspec.Struct, gc=False):
    epoch: int = -1
    end_offset: int = -1


def _read_epoch_end_offset(buf: Buffer, pos: int, version: int) -> tuple[EpochEndOffset, int]:
    flex = version >= 12
    epoch: int = -1
    end_offset: int = -1
    if version >= 12:
        epoch, end_offset = _fmt_iq.unpack_from(buf, pos)
        pos += 12
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EpochEndOffset(epoch, end_offset), pos


def _write_epoch_end_offset(put: Put, m: EpochEndOffset, version: int) -> None:
    flex = version >= 12
    if version >= 12:
        put(_fmt_iq.pack(m.epoch, m.end_offset))
    if flex:
        put(b"\0")


class LeaderIdAndEpoch(msgspec.Struct, gc=False):
    leader_id: int = -1
    leader_epoch: int = -1


def _read_leader_id_and_epoch(buf: Buffer, pos: int, version: int) -> tuple[LeaderIdAndEpoch, int]:
    flex = version >= 12
    leader_id: int = -1
    leader_epoch: int = -1
    if version >= 12:
        leader_id, leader_epoch = _fmt_ii.unpack_from(buf, pos)
        pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return LeaderIdAndEpoch(leader_id, leader_epoch), pos


def _write_leader_id_and_epoch(put: Put, m: LeaderIdAndEpoch, version: int) -> None:
    flex = version >= 12
    if version >= 12:
        put(_fmt_ii.pack(m.leader_id, m.leader_epoch))
    if flex:
        put(b"\0")


class SnapshotId(msgspec.Struct, gc=False):
    end_offset: int = -1
    epoch: int = -1


def _read_snapshot_id(buf: Buffer, pos: int, version: int) -> tuple[SnapshotId, int]:
    flex = version >= 12
    end_offset: int = -1
    epoch: int = -1
    if version >= 12:
        end_offset, epoch = _fmt_qi.unpack_from(buf, pos)
        pos += 12
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SnapshotId(end_offset, epoch), pos


def _write_snapshot_id(put: Put, m: SnapshotId, version: int) -> None:
    flex = version >= 12
    if version >= 12:
        put(_fmt_qi.pack(m.end_offset, m.epoch))
    if flex:
        put(b"\0")


class AbortedTransaction(msgspec.Struct, gc=False):
    producer_id: int = 0
    first_offset: int = 0


def _read_aborted_transaction(buf: Buffer, pos: int, version: int) -> tuple[AbortedTransaction, int]:
    flex = version >= 12
    producer_id, first_offset = _fmt_qq.unpack_from(buf, pos)
    pos += 16
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AbortedTransaction(producer_id, first_offset), pos


def _write_aborted_transaction(put: Put, m: AbortedTransaction, version: int) -> None:
    flex = version >= 12
    put(_fmt_qq.pack(m.producer_id, m.first_offset))
    if flex:
        put(b"\0")


class PartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    aborted_transactions: list[AbortedTransaction] | None = []
    preferred_read_replica: int = -1
    records: Buffer | None = None


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    flex = version >= 12
    partition_index, error_code, high_watermark, last_stable_offset = _fmt_ihqq.unpack_from(buf, pos)
    pos += 22
    log_start_offset: int = -1
    if version >= 5:
        (log_start_offset,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    aborted_transactions: list[AbortedTransaction] | None = None
    if _count >= 0:
        aborted_transactions = []
        for _ in range(_count):
            _aborted_transactions_item, pos = _read_aborted_transaction(buf, pos, version)
            aborted_transactions.append(_aborted_transactions_item)
    preferred_read_replica: int = -1
    if version >= 11:
        (preferred_read_replica,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    records, pos = (read_compact_records if flex else read_records)(buf, pos)
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                diverging_epoch, pos = _read_epoch_end_offset(buf, pos, version)
            elif _tag == 1:
                current_leader, pos = _read_leader_id_and_epoch(buf, pos, version)
            elif _tag == 2:
                snapshot_id, pos = _read_snapshot_id(buf, pos, version)
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return PartitionData(partition_index, error_code, high_watermark, last_stable_offset, log_start_offset, diverging_epoch, current_leader, snapshot_id, aborted_transactions, preferred_read_replica, records), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    flex = version >= 12
    put(_fmt_ihqq.pack(m.partition_index, m.error_code, m.high_watermark, m.last_stable_offset))
    if version >= 5:
        put(_fmt_q.pack(m.log_start_offset))
    if m.aborted_transactions is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.aborted_transactions) + 1) if flex else length(len(m.aborted_transactions)))
        for item_aborted_transactions in m.aborted_transactions:
            _write_aborted_transaction(put, item_aborted_transactions, version)
    if version >= 11:
        put(_fmt_i.pack(m.preferred_read_replica))
    put((compact_bytes_length if flex else bytes_length)(m.records))
    if m.records is not None:
        put(m.records)
    if flex:
        _tags: list[Buffer] = []
        _parts: list[Buffer]
        if m.diverging_epoch is not None:
            _parts = []
            _write_epoch_end_offset(_parts.append, m.diverging_epoch, version)
            _tags.append(tagged_field(0, _parts))
        if m.current_leader is not None:
            _parts = []
            _write_leader_id_and_epoch(_parts.append, m.current_leader, version)
            _tags.append(tagged_field(1, _parts))
        if m.snapshot_id is not None:
            _parts = []
            _write_snapshot_id(_parts.append, m.snapshot_id, version)
            _tags.append(tagged_field(2, _parts))
        put_tags(put, _tags)


class FetchableTopicResponse(msgspec.Struct, gc=False):
    topic: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[PartitionData] = []


def _read_fetchable_topic_response(buf: Buffer, pos: int, version: int) -> tuple[FetchableTopicResponse, int]:
    flex = version >= 12
    topic: str = ""
    if version <= 12:
        topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 13:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[PartitionData] = []
    for _ in range(_count):
        _partitions_item, pos = _read_partition_data(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return FetchableTopicResponse(topic, topic_id, partitions), pos


def _write_fetchable_topic_response(put: Put, m: FetchableTopicResponse, version: int) -> None:
    flex = version >= 12
    if version <= 12:
        put((compact_string if flex else string)(m.topic))
    if version >= 13:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_partition_data(put, item_partitions, version)
    if flex:
        put(b"\0")


class NodeEndpoint(msgspec.Struct, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


def _read_node_endpoint(buf: Buffer, pos: int, version: int) -> tuple[NodeEndpoint, int]:
    flex = version >= 12
    node_id: int = 0
    if version >= 16:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    host: str = ""
    if version >= 16:
        host, pos = (read_compact_string if flex else read_string)(buf, pos)
    port: int = 0
    if version >= 16:
        (port,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    rack: str | None = None
    if version >= 16:
        rack, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return NodeEndpoint(node_id, host, port, rack), pos


def _write_node_endpoint(put: Put, m: NodeEndpoint, version: int) -> None:
    flex = version >= 12
    if version >= 16:
        put(_fmt_i.pack(m.node_id))
    if version >= 16:
        put((compact_string if flex else string)(m.host))
    if version >= 16:
        put(_fmt_i.pack(m.port))
    if version >= 16:
        put((compact_string if flex else string)(m.rack))
    if flex:
        put(b"\0")


class FetchResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


def _read_fetch_response(buf: Buffer, pos: int, version: int) -> tuple[FetchResponse, int]:
    flex = version >= 12
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    error_code: int = 0
    session_id: int = 0
    if version >= 7:
        error_code, session_id = _fmt_hi.unpack_from(buf, pos)
        pos += 6
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    responses: list[FetchableTopicResponse] = []
    for _ in range(_count):
        _responses_item, pos = _read_fetchable_topic_response(buf, pos, version)
        responses.append(_responses_item)
    node_endpoints: list[NodeEndpoint] = []
    if flex:
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
    return FetchResponse(throttle_time_ms, error_code, session_id, responses, node_endpoints), pos


def _write_fetch_response(put: Put, m: FetchResponse, version: int) -> None:
    flex = version >= 12
    put(_fmt_i.pack(m.throttle_time_ms))
    if version >= 7:
        put(_fmt_hi.pack(m.error_code, m.session_id))
    put(uvarint(len(m.responses) + 1) if flex else length(len(m.responses)))
    for item_responses in m.responses:
        _write_fetchable_topic_response(put, item_responses, version)
    if flex:
        _tags: list[Buffer] = []
        _parts: list[Buffer]
        if version >= 16 and m.node_endpoints:
            _parts = []
            _parts.append(uvarint(len(m.node_endpoints) + 1))
            for item_node_endpoints in m.node_endpoints:
                _write_node_endpoint(_parts.append, item_node_endpoints, version)
            _tags.append(tagged_field(0, _parts))
        put_tags(put, _tags)


decode_request = _read_fetch_request
encode_request = _write_fetch_request
decode_response = _read_fetch_response
encode_response = _write_fetch_response
