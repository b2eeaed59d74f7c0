"""ListTransactions: generated from protocol/schemas/list_transactions.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_ih = _Struct(">ih")
_fmt_q = _Struct(">q")

API_KEY = 66

class ListTransactionsRequest(msgspec.Struct, gc=False):
    state_filters: list[str] = []
    producer_id_filters: list[int] = []
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


def _read_list_transactions_request(buf: Buffer, pos: int, version: int) -> tuple[ListTransactionsRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    state_filters: list[str] = []
    for _ in range(_count):
        _state_filters_item, pos = read_compact_string(buf, pos)
        state_filters.append(_state_filters_item)
    _count, pos = read_compact_length(buf, pos)
    producer_id_filters: list[int] = list(unpack_from(f">{_count}q", buf, pos))
    pos += 8 * _count
    duration_filter: int = -1
    if version >= 1:
        (duration_filter,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    transactional_id_pattern: str | None = None
    if version >= 2:
        transactional_id_pattern, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListTransactionsRequest(state_filters, producer_id_filters, duration_filter, transactional_id_pattern), pos


def _write_list_transactions_request(put: Put, m: ListTransactionsRequest, version: int) -> None:
    put(uvarint(len(m.state_filters) + 1))
    for item_state_filters in m.state_filters:
        put(compact_string(item_state_filters))
    put(uvarint(len(m.producer_id_filters) + 1))
    put(pack(f">{len(m.producer_id_filters)}q", *m.producer_id_filters))
    if version >= 1:
        put(_fmt_q.pack(m.duration_filter))
    if version >= 2:
        put(compact_string(m.transactional_id_pattern))
    put(b"\0")


class TransactionState(msgspec.Struct, gc=False):
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


def _read_transaction_state(buf: Buffer, pos: int, version: int) -> tuple[TransactionState, int]:
    transactional_id, pos = read_compact_string(buf, pos)
    (producer_id,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    transaction_state, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TransactionState(transactional_id, producer_id, transaction_state), pos


def _write_transaction_state(put: Put, m: TransactionState, version: int) -> None:
    put(compact_string(m.transactional_id))
    put(_fmt_q.pack(m.producer_id))
    put(compact_string(m.transaction_state))
    put(b"\0")


class ListTransactionsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []


def _read_list_transactions_response(buf: Buffer, pos: int, version: int) -> tuple[ListTransactionsResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    unknown_state_filters: list[str] = []
    for _ in range(_count):
        _unknown_state_filters_item, pos = read_compact_string(buf, pos)
        unknown_state_filters.append(_unknown_state_filters_item)
    _count, pos = read_compact_length(buf, pos)
    transaction_states: list[TransactionState] = []
    for _ in range(_count):
        _transaction_states_item, pos = _read_transaction_state(buf, pos, version)
        transaction_states.append(_transaction_states_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListTransactionsResponse(throttle_time_ms, error_code, unknown_state_filters, transaction_states), pos


def _write_list_transactions_response(put: Put, m: ListTransactionsResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(uvarint(len(m.unknown_state_filters) + 1))
    for item_unknown_state_filters in m.unknown_state_filters:
        put(compact_string(item_unknown_state_filters))
    put(uvarint(len(m.transaction_states) + 1))
    for item_transaction_states in m.transaction_states:
        _write_transaction_state(put, item_transaction_states, version)
    put(b"\0")


decode_request = _read_list_transactions_request
encode_request = _write_list_transactions_request
decode_response = _read_list_transactions_response
encode_response = _write_list_transactions_response
