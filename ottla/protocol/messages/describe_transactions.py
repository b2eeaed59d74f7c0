"""DescribeTransactions: generated from protocol/schemas/describe_transactions.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_iqqh = _Struct(">iqqh")

API_KEY = 65

class DescribeTransactionsRequest(msgspec.Struct, gc=False):
    transactional_ids: list[str] = []


def _read_describe_transactions_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeTransactionsRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    transactional_ids: list[str] = []
    for _ in range(_count):
        _transactional_ids_item, pos = read_compact_string(buf, pos)
        transactional_ids.append(_transactional_ids_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeTransactionsRequest(transactional_ids), pos


def _write_describe_transactions_request(put: Put, m: DescribeTransactionsRequest, version: int) -> None:
    put(uvarint(len(m.transactional_ids) + 1))
    for item_transactional_ids in m.transactional_ids:
        put(compact_string(item_transactional_ids))
    put(b"\0")


class TopicData(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[int] = []


def _read_topic_data(buf: Buffer, pos: int, version: int) -> tuple[TopicData, int]:
    topic, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicData(topic, partitions), pos


def _write_topic_data(put: Put, m: TopicData, version: int) -> None:
    put(compact_string(m.topic))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class TransactionState(msgspec.Struct, gc=False):
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[TopicData] = []


def _read_transaction_state(buf: Buffer, pos: int, version: int) -> tuple[TransactionState, int]:
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    transactional_id, pos = read_compact_string(buf, pos)
    transaction_state, pos = read_compact_string(buf, pos)
    transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch = _fmt_iqqh.unpack_from(buf, pos)
    pos += 22
    _count, pos = read_compact_length(buf, pos)
    topics: list[TopicData] = []
    for _ in range(_count):
        _topics_item, pos = _read_topic_data(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TransactionState(error_code, transactional_id, transaction_state, transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch, topics), pos


def _write_transaction_state(put: Put, m: TransactionState, version: int) -> None:
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.transactional_id))
    put(compact_string(m.transaction_state))
    put(_fmt_iqqh.pack(m.transaction_timeout_ms, m.transaction_start_time_ms, m.producer_id, m.producer_epoch))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_topic_data(put, item_topics, version)
    put(b"\0")


class DescribeTransactionsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = []


def _read_describe_transactions_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeTransactionsResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    transaction_states: list[TransactionState] = []
    for _ in range(_count):
        _transaction_states_item, pos = _read_transaction_state(buf, pos, version)
        transaction_states.append(_transaction_states_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeTransactionsResponse(throttle_time_ms, transaction_states), pos


def _write_describe_transactions_response(put: Put, m: DescribeTransactionsResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.transaction_states) + 1))
    for item_transaction_states in m.transaction_states:
        _write_transaction_state(put, item_transaction_states, version)
    put(b"\0")


decode_request = _read_describe_transactions_request
encode_request = _write_describe_transactions_request
decode_response = _read_describe_transactions_response
encode_response = _write_describe_transactions_response
