"""ClearElrRecord: generated from protocol/schemas/clear_elr_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_string,
    skip_tags,
)


RECORD_TYPE = 28
MIN_VERSION = 0
MAX_VERSION = 0

class ClearElrRecord(msgspec.Struct, gc=False):
    topic_name: str = ""


def _read_clear_elr_record(buf: Buffer, pos: int, version: int) -> tuple[ClearElrRecord, int]:
    topic_name, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ClearElrRecord(topic_name), pos


def _write_clear_elr_record(put: Put, m: ClearElrRecord, version: int) -> None:
    put(compact_string(m.topic_name))
    put(b"\0")


decode = _read_clear_elr_record
encode = _write_clear_elr_record
