"""TransactionLogValue: generated from protocol/schemas/transaction_log_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_string,
    read_tag,
    read_tag_count,
    skip_tags,
    string,
    uvarint,
)

_fmt_BBh = _Struct(">BBh")
_fmt_BBq = _Struct(">BBq")
_fmt_h = _Struct(">h")
_fmt_q = _Struct(">q")
_fmt_qhib = _Struct(">qhib")
_fmt_qq = _Struct(">qq")

RECORD_TYPE = 0
MIN_VERSION = 0
MAX_VERSION = 1

class PartitionsSchema(msgspec.Struct, gc=False):
    topic: str = ""
    partition_ids: list[int] = []


def _read_partitions_schema(buf: Buffer, pos: int, version: int) -> tuple[PartitionsSchema, int]:
    flex = version >= 1
    topic, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    partition_ids: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return PartitionsSchema(topic, partition_ids), pos


def _write_partitions_schema(put: Put, m: PartitionsSchema, version: int) -> None:
    flex = version >= 1
    put((compact_string if flex else string)(m.topic))
    put(uvarint(len(m.partition_ids) + 1) if flex else length(len(m.partition_ids)))
    put(pack(f">{len(m.partition_ids)}i", *m.partition_ids))
    if flex:
        put(b"\0")


class TransactionLogValue(msgspec.Struct, gc=False):
    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[PartitionsSchema] | None = []
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0


def _read_transaction_log_value(buf: Buffer, pos: int, version: int) -> tuple[TransactionLogValue, int]:
    flex = version >= 1
    producer_id, producer_epoch, transaction_timeout_ms, transaction_status = _fmt_qhib.unpack_from(buf, pos)
    pos += 15
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    transaction_partitions: list[PartitionsSchema] | None = None
    if _count >= 0:
        transaction_partitions = []
        for _ in range(_count):
            _transaction_partitions_item, pos = _read_partitions_schema(buf, pos, version)
            transaction_partitions.append(_transaction_partitions_item)
    transaction_last_update_timestamp_ms, transaction_start_timestamp_ms = _fmt_qq.unpack_from(buf, pos)
    pos += 16
    previous_producer_id: int = -1
    next_producer_id: int = -1
    next_producer_epoch: int = -1
    client_transaction_version: int = 0
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                (previous_producer_id,) = _fmt_q.unpack_from(buf, pos)
                pos += 8
            elif _tag == 1:
                (next_producer_id,) = _fmt_q.unpack_from(buf, pos)
                pos += 8
            elif _tag == 3:
                (next_producer_epoch,) = _fmt_h.unpack_from(buf, pos)
                pos += 2
            elif _tag == 2:
                (client_transaction_version,) = _fmt_h.unpack_from(buf, pos)
                pos += 2
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return TransactionLogValue(producer_id, previous_producer_id, next_producer_id, producer_epoch, next_producer_epoch, transaction_timeout_ms, transaction_status, transaction_partitions, transaction_last_update_timestamp_ms, transaction_start_timestamp_ms, client_transaction_version), pos


def _write_transaction_log_value(put: Put, m: TransactionLogValue, version: int) -> None:
    flex = version >= 1
    put(_fmt_qhib.pack(m.producer_id, m.producer_epoch, m.transaction_timeout_ms, m.transaction_status))
    if m.transaction_partitions is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.transaction_partitions) + 1) if flex else length(len(m.transaction_partitions)))
        for item_transaction_partitions in m.transaction_partitions:
            _write_partitions_schema(put, item_transaction_partitions, version)
    put(_fmt_qq.pack(m.transaction_last_update_timestamp_ms, m.transaction_start_timestamp_ms))
    if flex:
        _tags: list[Buffer] = []
        if m.previous_producer_id != -1:
            _tags.append(_fmt_BBq.pack(0, 8, m.previous_producer_id))
        if m.next_producer_id != -1:
            _tags.append(_fmt_BBq.pack(1, 8, m.next_producer_id))
        if m.client_transaction_version != 0:
            _tags.append(_fmt_BBh.pack(2, 2, m.client_transaction_version))
        if m.next_producer_epoch != -1:
            _tags.append(_fmt_BBh.pack(3, 2, m.next_producer_epoch))
        put_tags(put, _tags)


decode = _read_transaction_log_value
encode = _write_transaction_log_value
