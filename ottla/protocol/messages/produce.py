"""Produce: generated from protocol/schemas/produce.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

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
    read_compact_nullable_string,
    read_compact_records,
    read_compact_string,
    read_length,
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
_fmt_hi = _Struct(">hi")
_fmt_i = _Struct(">i")
_fmt_ihqq = _Struct(">ihqq")
_fmt_ii = _Struct(">ii")
_fmt_q = _Struct(">q")

API_KEY = 0

class PartitionProduceData(msgspec.Struct, gc=False):
    index: int = 0
    records: Buffer | None = None


def _read_partition_produce_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionProduceData, int]:
    flex = version >= 9
    (index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    records, pos = (read_compact_records if flex else read_records)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return PartitionProduceData(index, records), pos


def _write_partition_produce_data(put: Put, m: PartitionProduceData, version: int) -> None:
    flex = version >= 9
    put(_fmt_i.pack(m.index))
    put((compact_bytes_length if flex else bytes_length)(m.records))
    if m.records is not None:
        put(m.records)
    if flex:
        put(b"\0")


class TopicProduceData(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partition_data: list[PartitionProduceData] = []


def _read_topic_produce_data(buf: Buffer, pos: int, version: int) -> tuple[TopicProduceData, int]:
    flex = version >= 9
    name: str = ""
    if version <= 12:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 13:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partition_data: list[PartitionProduceData] = []
    for _ in range(_count):
        _partition_data_item, pos = _read_partition_produce_data(buf, pos, version)
        partition_data.append(_partition_data_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TopicProduceData(name, topic_id, partition_data), pos


def _write_topic_produce_data(put: Put, m: TopicProduceData, version: int) -> None:
    flex = version >= 9
    if version <= 12:
        put((compact_string if flex else string)(m.name))
    if version >= 13:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partition_data) + 1) if flex else length(len(m.partition_data)))
    for item_partition_data in m.partition_data:
        _write_partition_produce_data(put, item_partition_data, version)
    if flex:
        put(b"\0")


class ProduceRequest(msgspec.Struct, gc=False):
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = []


def _read_produce_request(buf: Buffer, pos: int, version: int) -> tuple[ProduceRequest, int]:
    flex = version >= 9
    transactional_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    acks, timeout_ms = _fmt_hi.unpack_from(buf, pos)
    pos += 6
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topic_data: list[TopicProduceData] = []
    for _ in range(_count):
        _topic_data_item, pos = _read_topic_produce_data(buf, pos, version)
        topic_data.append(_topic_data_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ProduceRequest(transactional_id, acks, timeout_ms, topic_data), pos


def _write_produce_request(put: Put, m: ProduceRequest, version: int) -> None:
    flex = version >= 9
    put((compact_string if flex else string)(m.transactional_id))
    put(_fmt_hi.pack(m.acks, m.timeout_ms))
    put(uvarint(len(m.topic_data) + 1) if flex else length(len(m.topic_data)))
    for item_topic_data in m.topic_data:
        _write_topic_produce_data(put, item_topic_data, version)
    if flex:
        put(b"\0")


class BatchIndexAndErrorMessage(msgspec.Struct, gc=False):
    batch_index: int = 0
    batch_index_error_message: str | None = None


def _read_batch_index_and_error_message(buf: Buffer, pos: int, version: int) -> tuple[BatchIndexAndErrorMessage, int]:
    flex = version >= 9
    batch_index: int = 0
    if version >= 8:
        (batch_index,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    batch_index_error_message: str | None = None
    if version >= 8:
        batch_index_error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return BatchIndexAndErrorMessage(batch_index, batch_index_error_message), pos


def _write_batch_index_and_error_message(put: Put, m: BatchIndexAndErrorMessage, version: int) -> None:
    flex = version >= 9
    if version >= 8:
        put(_fmt_i.pack(m.batch_index))
    if version >= 8:
        put((compact_string if flex else string)(m.batch_index_error_message))
    if flex:
        put(b"\0")


class LeaderIdAndEpoch(msgspec.Struct, gc=False):
    leader_id: int = -1
    leader_epoch: int = -1


def _read_leader_id_and_epoch(buf: Buffer, pos: int, version: int) -> tuple[LeaderIdAndEpoch, int]:
    flex = version >= 9
    leader_id: int = -1
    leader_epoch: int = -1
    if version >= 10:
        leader_id, leader_epoch = _fmt_ii.unpack_from(buf, pos)
        pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return LeaderIdAndEpoch(leader_id, leader_epoch), pos


def _write_leader_id_and_epoch(put: Put, m: LeaderIdAndEpoch, version: int) -> None:
    flex = version >= 9
    if version >= 10:
        put(_fmt_ii.pack(m.leader_id, m.leader_epoch))
    if flex:
        put(b"\0")


class PartitionProduceResponse(msgspec.Struct, gc=False):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = []
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


def _read_partition_produce_response(buf: Buffer, pos: int, version: int) -> tuple[PartitionProduceResponse, int]:
    flex = version >= 9
    index, error_code, base_offset, log_append_time_ms = _fmt_ihqq.unpack_from(buf, pos)
    pos += 22
    log_start_offset: int = -1
    if version >= 5:
        (log_start_offset,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    record_errors: list[BatchIndexAndErrorMessage] = []
    if version >= 8:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        record_errors = []
        for _ in range(_count):
            _record_errors_item, pos = _read_batch_index_and_error_message(buf, pos, version)
            record_errors.append(_record_errors_item)
    error_message: str | None = None
    if version >= 8:
        error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    current_leader: LeaderIdAndEpoch | None = None
    if flex:
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
    return PartitionProduceResponse(index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message, current_leader), pos


def _write_partition_produce_response(put: Put, m: PartitionProduceResponse, version: int) -> None:
    flex = version >= 9
    put(_fmt_ihqq.pack(m.index, m.error_code, m.base_offset, m.log_append_time_ms))
    if version >= 5:
        put(_fmt_q.pack(m.log_start_offset))
    if version >= 8:
        put(uvarint(len(m.record_errors) + 1) if flex else length(len(m.record_errors)))
        for item_record_errors in m.record_errors:
            _write_batch_index_and_error_message(put, item_record_errors, version)
    if version >= 8:
        put((compact_string if flex else string)(m.error_message))
    if flex:
        _tags: list[Buffer] = []
        _parts: list[Buffer]
        if version >= 10 and m.current_leader is not None:
            _parts = []
            _write_leader_id_and_epoch(_parts.append, m.current_leader, version)
            _tags.append(tagged_field(0, _parts))
        put_tags(put, _tags)


class TopicProduceResponse(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partition_responses: list[PartitionProduceResponse] = []


def _read_topic_produce_response(buf: Buffer, pos: int, version: int) -> tuple[TopicProduceResponse, int]:
    flex = version >= 9
    name: str = ""
    if version <= 12:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 13:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partition_responses: list[PartitionProduceResponse] = []
    for _ in range(_count):
        _partition_responses_item, pos = _read_partition_produce_response(buf, pos, version)
        partition_responses.append(_partition_responses_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return TopicProduceResponse(name, topic_id, partition_responses), pos


def _write_topic_produce_response(put: Put, m: TopicProduceResponse, version: int) -> None:
    flex = version >= 9
    if version <= 12:
        put((compact_string if flex else string)(m.name))
    if version >= 13:
        put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partition_responses) + 1) if flex else length(len(m.partition_responses)))
    for item_partition_responses in m.partition_responses:
        _write_partition_produce_response(put, item_partition_responses, version)
    if flex:
        put(b"\0")


class NodeEndpoint(msgspec.Struct, gc=False):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


def _read_node_endpoint(buf: Buffer, pos: int, version: int) -> tuple[NodeEndpoint, int]:
    flex = version >= 9
    node_id: int = 0
    if version >= 10:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    host: str = ""
    if version >= 10:
        host, pos = (read_compact_string if flex else read_string)(buf, pos)
    port: int = 0
    if version >= 10:
        (port,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    rack: str | None = None
    if version >= 10:
        rack, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return NodeEndpoint(node_id, host, port, rack), pos


def _write_node_endpoint(put: Put, m: NodeEndpoint, version: int) -> None:
    flex = version >= 9
    if version >= 10:
        put(_fmt_i.pack(m.node_id))
    if version >= 10:
        put((compact_string if flex else string)(m.host))
    if version >= 10:
        put(_fmt_i.pack(m.port))
    if version >= 10:
        put((compact_string if flex else string)(m.rack))
    if flex:
        put(b"\0")


class ProduceResponse(msgspec.Struct, gc=False):
    responses: list[TopicProduceResponse] = []
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = []


def _read_produce_response(buf: Buffer, pos: int, version: int) -> tuple[ProduceResponse, int]:
    flex = version >= 9
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    responses: list[TopicProduceResponse] = []
    for _ in range(_count):
        _responses_item, pos = _read_topic_produce_response(buf, pos, version)
        responses.append(_responses_item)
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
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
    return ProduceResponse(responses, throttle_time_ms, node_endpoints), pos


def _write_produce_response(put: Put, m: ProduceResponse, version: int) -> None:
    flex = version >= 9
    put(uvarint(len(m.responses) + 1) if flex else length(len(m.responses)))
    for item_responses in m.responses:
        _write_topic_produce_response(put, item_responses, version)
    put(_fmt_i.pack(m.throttle_time_ms))
    if flex:
        _tags: list[Buffer] = []
        _parts: list[Buffer]
        if version >= 10 and m.node_endpoints:
            _parts = []
            _parts.append(uvarint(len(m.node_endpoints) + 1))
            for item_node_endpoints in m.node_endpoints:
                _write_node_endpoint(_parts.append, item_node_endpoints, version)
            _tags.append(tagged_field(0, _parts))
        put_tags(put, _tags)


decode_request = _read_produce_request
encode_request = _write_produce_request
decode_response = _read_produce_response
encode_response = _write_produce_response
