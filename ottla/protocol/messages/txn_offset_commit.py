"""TxnOffsetCommit: generated from protocol/schemas/txn_offset_commit.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_iq = _Struct(">iq")
_fmt_qh = _Struct(">qh")

API_KEY = 28

class TxnOffsetCommitRequestPartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


def _read_txn_offset_commit_request_partition(buf: Buffer, pos: int, version: int) -> tuple[TxnOffsetCommitRequestPartition, int]:
    flex = version >= 3
    partition_index, committed_offset = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    committed_leader_epoch: int = -1
    if version >= 2:
        (committed_leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    committed_metadata, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TxnOffsetCommitRequestPartition(partition_index, committed_offset, committed_leader_epoch, committed_metadata), pos


def _write_txn_offset_commit_request_partition(put: Put, m: TxnOffsetCommitRequestPartition, version: int) -> None:
    flex = version >= 3
    put(_fmt_iq.pack(m.partition_index, m.committed_offset))
    if version >= 2:
        put(_fmt_i.pack(m.committed_leader_epoch))
    put((compact_string if flex else string)(m.committed_metadata))
    if flex:
        put(b"\0")


class TxnOffsetCommitRequestTopic(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[TxnOffsetCommitRequestPartition] = []


def _read_txn_offset_commit_request_topic(buf: Buffer, pos: int, version: int) -> tuple[TxnOffsetCommitRequestTopic, int]:
    flex = version >= 3
    name: str = ""
    if version <= 5:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 6:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[TxnOffsetCommitRequestPartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_txn_offset_commit_request_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TxnOffsetCommitRequestTopic(name, topic_id, partitions), pos


def _write_txn_offset_commit_request_topic(put: Put, m: TxnOffsetCommitRequestTopic, version: int) -> None:
    flex = version >= 3
    if version <= 5:
        put((compact_string if flex else string)(m.name))
    if version >= 6:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_txn_offset_commit_request_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class TxnOffsetCommitRequest(msgspec.Struct, gc=False):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequestTopic] = []


def _read_txn_offset_commit_request(buf: Buffer, pos: int, version: int) -> tuple[TxnOffsetCommitRequest, int]:
    flex = version >= 3
    transactional_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    producer_id, producer_epoch = _fmt_qh.unpack_from(buf, pos)
    pos += 10
    generation_id_or_member_epoch: int = -1
    if version >= 3:
        (generation_id_or_member_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    member_id: str = ""
    if version >= 3:
        member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 3:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[TxnOffsetCommitRequestTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_txn_offset_commit_request_topic(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TxnOffsetCommitRequest(transactional_id, group_id, producer_id, producer_epoch, generation_id_or_member_epoch, member_id, group_instance_id, topics), pos


def _write_txn_offset_commit_request(put: Put, m: TxnOffsetCommitRequest, version: int) -> None:
    flex = version >= 3
    put((compact_string if flex else string)(m.transactional_id))
    put((compact_string if flex else string)(m.group_id))
    put(_fmt_qh.pack(m.producer_id, m.producer_epoch))
    if version >= 3:
        put(_fmt_i.pack(m.generation_id_or_member_epoch))
    if version >= 3:
        put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put((compact_string if flex else string)(m.group_instance_id))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_txn_offset_commit_request_topic(put, item_topics, version)
    if flex:
        put(b"\0")


class TxnOffsetCommitResponsePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0


def _read_txn_offset_commit_response_partition(buf: Buffer, pos: int, version: int) -> tuple[TxnOffsetCommitResponsePartition, int]:
    flex = version >= 3
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TxnOffsetCommitResponsePartition(partition_index, error_code), pos


def _write_txn_offset_commit_response_partition(put: Put, m: TxnOffsetCommitResponsePartition, version: int) -> None:
    flex = version >= 3
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    if flex:
        put(b"\0")


class TxnOffsetCommitResponseTopic(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[TxnOffsetCommitResponsePartition] = []


def _read_txn_offset_commit_response_topic(buf: Buffer, pos: int, version: int) -> tuple[TxnOffsetCommitResponseTopic, int]:
    flex = version >= 3
    name: str = ""
    if version <= 5:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 6:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[TxnOffsetCommitResponsePartition] = []
    for _ in range(_count):
        _partitions_item, pos = _read_txn_offset_commit_response_partition(buf, pos, version)
        partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TxnOffsetCommitResponseTopic(name, topic_id, partitions), pos


def _write_txn_offset_commit_response_topic(put: Put, m: TxnOffsetCommitResponseTopic, version: int) -> None:
    flex = version >= 3
    if version <= 5:
        put((compact_string if flex else string)(m.name))
    if version >= 6:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    for item_partitions in m.partitions:
        _write_txn_offset_commit_response_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class TxnOffsetCommitResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = []


def _read_txn_offset_commit_response(buf: Buffer, pos: int, version: int) -> tuple[TxnOffsetCommitResponse, int]:
    flex = version >= 3
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[TxnOffsetCommitResponseTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_txn_offset_commit_response_topic(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TxnOffsetCommitResponse(throttle_time_ms, topics), pos


def _write_txn_offset_commit_response(put: Put, m: TxnOffsetCommitResponse, version: int) -> None:
    flex = version >= 3
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_txn_offset_commit_response_topic(put, item_topics, version)
    if flex:
        put(b"\0")


decode_request = _read_txn_offset_commit_request
encode_request = _write_txn_offset_commit_request
decode_response = _read_txn_offset_commit_response
encode_response = _write_txn_offset_commit_response
