"""AlterPartition: generated from protocol/schemas/alter_partition.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

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
_fmt_bi = _Struct(">bi")
_fmt_ih = _Struct(">ih")
_fmt_ihii = _Struct(">ihii")
_fmt_ii = _Struct(">ii")
_fmt_iq = _Struct(">iq")

API_KEY = 56

class BrokerState(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = -1


def _read_broker_state(buf: Buffer, pos: int, version: int) -> tuple[BrokerState, int]:
    broker_id: int = 0
    broker_epoch: int = -1
    if version >= 3:
        broker_id, broker_epoch = _fmt_iq.unpack_from(buf, pos)
        pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return BrokerState(broker_id, broker_epoch), pos


def _write_broker_state(put: Put, m: BrokerState, version: int) -> None:
    if version >= 3:
        put(_fmt_iq.pack(m.broker_id, m.broker_epoch))
    put(b"\0")


class PartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: list[int] = []
    new_isr_with_epochs: list[BrokerState] = []
    leader_recovery_state: int = 0
    partition_epoch: int = 0


def _read_partition_data(buf: Buffer, pos: int, version: int) -> tuple[PartitionData, int]:
    partition_index, leader_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    new_isr: list[int] = []
    if version <= 2:
        _count, pos = read_compact_length(buf, pos)
        new_isr = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    new_isr_with_epochs: list[BrokerState] = []
    if version >= 3:
        _count, pos = read_compact_length(buf, pos)
        new_isr_with_epochs = []
        for _ in range(_count):
            _new_isr_with_epochs_item, pos = _read_broker_state(buf, pos, version)
            new_isr_with_epochs.append(_new_isr_with_epochs_item)
    leader_recovery_state, partition_epoch = _fmt_bi.unpack_from(buf, pos)
    pos += 5
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PartitionData(partition_index, leader_epoch, new_isr, new_isr_with_epochs, leader_recovery_state, partition_epoch), pos


def _write_partition_data(put: Put, m: PartitionData, version: int) -> None:
    put(_fmt_ii.pack(m.partition_index, m.leader_epoch))
    if version <= 2:
        put(uvarint(len(m.new_isr) + 1))
        put(pack(f">{len(m.new_isr)}i", *m.new_isr))
    if version >= 3:
        put(uvarint(len(m.new_isr_with_epochs) + 1))
        for item_new_isr_with_epochs in m.new_isr_with_epochs:
            _write_broker_state(put, item_new_isr_with_epochs, version)
    put(_fmt_bi.pack(m.leader_recovery_state, m.partition_epoch))
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


class AlterPartitionRequest(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[TopicData] = []


def _read_alter_partition_request(buf: Buffer, pos: int, version: int) -> tuple[AlterPartitionRequest, int]:
    broker_id, broker_epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterPartitionRequest(broker_id, broker_epoch, topics), pos


def _write_alter_partition_request(put: Put, m: AlterPartitionRequest, version: int) -> None:
    put(_fmt_iq.pack(m.broker_id, m.broker_epoch))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_data(put, item_topics, version)
    put(b"\0")


class ResponsePartitionData(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = []
    leader_recovery_state: int = 0
    partition_epoch: int = 0


def _read_response_partition_data(buf: Buffer, pos: int, version: int) -> tuple[ResponsePartitionData, int]:
    partition_index, error_code, leader_id, leader_epoch = _fmt_ihii.unpack_from(buf, pos)
    pos += 14
    _count, pos = read_compact_length(buf, pos)
    isr: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    leader_recovery_state, partition_epoch = _fmt_bi.unpack_from(buf, pos)
    pos += 5
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ResponsePartitionData(partition_index, error_code, leader_id, leader_epoch, isr, leader_recovery_state, partition_epoch), pos


def _write_response_partition_data(put: Put, m: ResponsePartitionData, version: int) -> None:
    put(_fmt_ihii.pack(m.partition_index, m.error_code, m.leader_id, m.leader_epoch))
    put(uvarint(len(m.isr) + 1))
    put(pack(f">{len(m.isr)}i", *m.isr))
    put(_fmt_bi.pack(m.leader_recovery_state, m.partition_epoch))
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


class AlterPartitionResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[ResponseTopicData] = []


def _read_alter_partition_response(buf: Buffer, pos: int, version: int) -> tuple[AlterPartitionResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    topics: list[ResponseTopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_response_topic_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterPartitionResponse(throttle_time_ms, error_code, topics), pos


def _write_alter_partition_response(put: Put, m: AlterPartitionResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_response_topic_data(put, item_topics, version)
    put(b"\0")


decode_request = _read_alter_partition_request
encode_request = _write_alter_partition_request
decode_response = _read_alter_partition_response
encode_response = _write_alter_partition_response
