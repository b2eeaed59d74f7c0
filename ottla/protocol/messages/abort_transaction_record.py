"""AbortTransactionRecord: generated from protocol/schemas/abort_transaction_record.schema by protocol.codegen; do not edit."""

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


RECORD_TYPE = 25
MIN_VERSION = 0
MAX_VERSION = 0

class AbortTransactionRecord(msgspec.Struct, gc=False):
    reason: str | None = None


def _read_abort_transaction_record(buf: Buffer, pos: int, version: int) -> tuple[AbortTransactionRecord, int]:
    reason: str | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            reason, pos = read_compact_nullable_string(buf, pos)
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return AbortTransactionRecord(reason), pos


def _write_abort_transaction_record(put: Put, m: AbortTransactionRecord, version: int) -> None:
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.reason is not None:
        _parts = []
        _parts.append(compact_string(m.reason))
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


decode = _read_abort_transaction_record
encode = _write_abort_transaction_record
