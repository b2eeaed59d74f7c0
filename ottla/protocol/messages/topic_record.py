"""TopicRecord: generated from protocol/schemas/topic_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_string,
    skip_tags,
)

_fmt_U_ = _Struct(">16s")

RECORD_TYPE = 2
MIN_VERSION = 0
MAX_VERSION = 0

class TopicRecord(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID


def _read_topic_record(buf: Buffer, pos: int, version: int) -> tuple[TopicRecord, int]:
    name, pos = read_compact_string(buf, pos)
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicRecord(name, topic_id), pos


def _write_topic_record(put: Put, m: TopicRecord, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_U_.pack(m.topic_id))
    put(b"\0")


decode = _read_topic_record
encode = _write_topic_record
