"""RemoveTopicRecord: generated from protocol/schemas/remove_topic_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    skip_tags,
)

_fmt_U_ = _Struct(">16s")

RECORD_TYPE = 9
MIN_VERSION = 0
MAX_VERSION = 0

class RemoveTopicRecord(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID


def _read_remove_topic_record(buf: Buffer, pos: int, version: int) -> tuple[RemoveTopicRecord, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RemoveTopicRecord(topic_id), pos


def _write_remove_topic_record(put: Put, m: RemoveTopicRecord, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(b"\0")


decode = _read_remove_topic_record
encode = _write_remove_topic_record
