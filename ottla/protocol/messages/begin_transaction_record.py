"""BeginTransactionRecord: generated from protocol/schemas/begin_transaction_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    put_tags,
    read_compact_nullable_string,
    read_tag,
    read_tag_count,
    tagged_field,
)


RECORD_TYPE = 23
MIN_VERSION = 0
MAX_VERSION = 0

class BeginTransactionRecord(msgspec.Struct, gc=False):
    name: str | None = None


def _read_begin_transaction_record(buf: Buffer, pos: int, version: int) -> tuple[BeginTransactionRecord, int]:
    name: str | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            name, pos = read_compact_nullable_string(buf, pos)
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return BeginTransactionRecord(name), pos


def _write_begin_transaction_record(put: Put, m: BeginTransactionRecord, version: int) -> None:
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.name is not None:
        _parts = []
        _parts.append(compact_string(m.name))
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


decode = _read_begin_transaction_record
encode = _write_begin_transaction_record
