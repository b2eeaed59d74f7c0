"""AddPartitionsToTxn: generated from protocol/schemas/add_partitions_to_txn.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_string,
    read_length,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_qh = _Struct(">qh")
_fmt_qhB_ = _Struct(">qh?")

API_KEY = 24

class AddPartitionsToTxnTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[int] = []


def _read_add_partitions_to_txn_topic(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnTopic, int]:
    flex = version >= 3
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnTopic(name, partitions), pos


def _write_add_partitions_to_txn_topic(put: Put, m: AddPartitionsToTxnTopic, version: int) -> None:
    flex = version >= 3
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    if flex:
        put(b"\0")


class AddPartitionsToTxnTransaction(msgspec.Struct, gc=False):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = []


def _read_add_partitions_to_txn_transaction(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnTransaction, int]:
    flex = version >= 3
    transactional_id: str = ""
    if version >= 4:
        transactional_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    if version >= 4:
        producer_id, producer_epoch, verify_only = _fmt_qhB_.unpack_from(buf, pos)
        pos += 11
    topics: list[AddPartitionsToTxnTopic] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_add_partitions_to_txn_topic(buf, pos, version)
            topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnTransaction(transactional_id, producer_id, producer_epoch, verify_only, topics), pos


def _write_add_partitions_to_txn_transaction(put: Put, m: AddPartitionsToTxnTransaction, version: int) -> None:
    flex = version >= 3
    if version >= 4:
        put((compact_string if flex else string)(m.transactional_id))
    if version >= 4:
        put(_fmt_qhB_.pack(m.producer_id, m.producer_epoch, m.verify_only))
    if version >= 4:
        put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
        for item_topics in m.topics:
            _write_add_partitions_to_txn_topic(put, item_topics, version)
    if flex:
        put(b"\0")


class AddPartitionsToTxnRequest(msgspec.Struct, gc=False):
    transactions: list[AddPartitionsToTxnTransaction] = []
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = []


def _read_add_partitions_to_txn_request(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnRequest, int]:
    flex = version >= 3
    transactions: list[AddPartitionsToTxnTransaction] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        transactions = []
        for _ in range(_count):
            _transactions_item, pos = _read_add_partitions_to_txn_transaction(buf, pos, version)
            transactions.append(_transactions_item)
    v3_and_below_transactional_id: str = ""
    if version <= 3:
        v3_and_below_transactional_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    if version <= 3:
        v3_and_below_producer_id, v3_and_below_producer_epoch = _fmt_qh.unpack_from(buf, pos)
        pos += 10
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = []
    if version <= 3:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        v3_and_below_topics = []
        for _ in range(_count):
            _v3_and_below_topics_item, pos = _read_add_partitions_to_txn_topic(buf, pos, version)
            v3_and_below_topics.append(_v3_and_below_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnRequest(transactions, v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics), pos


def _write_add_partitions_to_txn_request(put: Put, m: AddPartitionsToTxnRequest, version: int) -> None:
    flex = version >= 3
    if version >= 4:
        put(uvarint(len(m.transactions) + 1) if flex else length(len(m.transactions)))
        for item_transactions in m.transactions:
            _write_add_partitions_to_txn_transaction(put, item_transactions, version)
    if version <= 3:
        put((compact_string if flex else string)(m.v3_and_below_transactional_id))
    if version <= 3:
        put(_fmt_qh.pack(m.v3_and_below_producer_id, m.v3_and_below_producer_epoch))
    if version <= 3:
        put(uvarint(len(m.v3_and_below_topics) + 1) if flex else length(len(m.v3_and_below_topics)))
        for item_v3_and_below_topics in m.v3_and_below_topics:
            _write_add_partitions_to_txn_topic(put, item_v3_and_below_topics, version)
    if flex:
        put(b"\0")


class AddPartitionsToTxnTopicResult(msgspec.Struct, gc=False):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


def _read_add_partitions_to_txn_topic_result(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnTopicResult, int]:
    flex = version >= 3
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []
    for _ in range(_count):
        _results_by_partition_item, pos = _read_add_partitions_to_txn_partition_result(buf, pos, version)
        results_by_partition.append(_results_by_partition_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnTopicResult(name, results_by_partition), pos


def _write_add_partitions_to_txn_topic_result(put: Put, m: AddPartitionsToTxnTopicResult, version: int) -> None:
    flex = version >= 3
    put((compact_string if flex else string)(m.name))
    put(uvarint(len(m.results_by_partition) + 1) if flex else length(len(m.results_by_partition)))
    for item_results_by_partition in m.results_by_partition:
        _write_add_partitions_to_txn_partition_result(put, item_results_by_partition, version)
    if flex:
        put(b"\0")


class AddPartitionsToTxnPartitionResult(msgspec.Struct, gc=False):
    partition_index: int = 0
    partition_error_code: int = 0


def _read_add_partitions_to_txn_partition_result(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnPartitionResult, int]:
    flex = version >= 3
    partition_index, partition_error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnPartitionResult(partition_index, partition_error_code), pos


def _write_add_partitions_to_txn_partition_result(put: Put, m: AddPartitionsToTxnPartitionResult, version: int) -> None:
    flex = version >= 3
    put(_fmt_ih.pack(m.partition_index, m.partition_error_code))
    if flex:
        put(b"\0")


class AddPartitionsToTxnResult(msgspec.Struct, gc=False):
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = []


def _read_add_partitions_to_txn_result(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnResult, int]:
    flex = version >= 3
    transactional_id: str = ""
    if version >= 4:
        transactional_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_results: list[AddPartitionsToTxnTopicResult] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        topic_results = []
        for _ in range(_count):
            _topic_results_item, pos = _read_add_partitions_to_txn_topic_result(buf, pos, version)
            topic_results.append(_topic_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnResult(transactional_id, topic_results), pos


def _write_add_partitions_to_txn_result(put: Put, m: AddPartitionsToTxnResult, version: int) -> None:
    flex = version >= 3
    if version >= 4:
        put((compact_string if flex else string)(m.transactional_id))
    if version >= 4:
        put(uvarint(len(m.topic_results) + 1) if flex else length(len(m.topic_results)))
        for item_topic_results in m.topic_results:
            _write_add_partitions_to_txn_topic_result(put, item_topic_results, version)
    if flex:
        put(b"\0")


class AddPartitionsToTxnResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = []
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []


def _read_add_partitions_to_txn_response(buf: Buffer, pos: int, version: int) -> tuple[AddPartitionsToTxnResponse, int]:
    flex = version >= 3
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    error_code: int = 0
    if version >= 4:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    results_by_transaction: list[AddPartitionsToTxnResult] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        results_by_transaction = []
        for _ in range(_count):
            _results_by_transaction_item, pos = _read_add_partitions_to_txn_result(buf, pos, version)
            results_by_transaction.append(_results_by_transaction_item)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []
    if version <= 3:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        results_by_topic_v3_and_below = []
        for _ in range(_count):
            _results_by_topic_v3_and_below_item, pos = _read_add_partitions_to_txn_topic_result(buf, pos, version)
            results_by_topic_v3_and_below.append(_results_by_topic_v3_and_below_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddPartitionsToTxnResponse(throttle_time_ms, error_code, results_by_transaction, results_by_topic_v3_and_below), pos


def _write_add_partitions_to_txn_response(put: Put, m: AddPartitionsToTxnResponse, version: int) -> None:
    flex = version >= 3
    put(_fmt_i.pack(m.throttle_time_ms))
    if version >= 4:
        put(_fmt_h.pack(m.error_code))
    if version >= 4:
        put(uvarint(len(m.results_by_transaction) + 1) if flex else length(len(m.results_by_transaction)))
        for item_results_by_transaction in m.results_by_transaction:
            _write_add_partitions_to_txn_result(put, item_results_by_transaction, version)
    if version <= 3:
        put(uvarint(len(m.results_by_topic_v3_and_below) + 1) if flex else length(len(m.results_by_topic_v3_and_below)))
        for item_results_by_topic_v3_and_below in m.results_by_topic_v3_and_below:
            _write_add_partitions_to_txn_topic_result(put, item_results_by_topic_v3_and_below, version)
    if flex:
        put(b"\0")


decode_request = _read_add_partitions_to_txn_request
encode_request = _write_add_partitions_to_txn_request
decode_response = _read_add_partitions_to_txn_response
encode_response = _write_add_partitions_to_txn_response
