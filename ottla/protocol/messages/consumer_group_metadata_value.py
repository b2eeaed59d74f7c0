"""ConsumerGroupMetadataValue: generated from protocol/schemas/consumer_group_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    put_tags,
    read_tag,
    read_tag_count,
)

_fmt_BBq = _Struct(">BBq")
_fmt_i = _Struct(">i")
_fmt_q = _Struct(">q")

RECORD_TYPE = 3
MIN_VERSION = 0
MAX_VERSION = 0

class ConsumerGroupMetadataValue(msgspec.Struct, gc=False):
    epoch: int = 0
    metadata_hash: int = 0


def _read_consumer_group_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupMetadataValue, int]:
    (epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    metadata_hash: int = 0
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (metadata_hash,) = _fmt_q.unpack_from(buf, pos)
            pos += 8
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return ConsumerGroupMetadataValue(epoch, metadata_hash), pos


def _write_consumer_group_metadata_value(put: Put, m: ConsumerGroupMetadataValue, version: int) -> None:
    put(_fmt_i.pack(m.epoch))
    _tags: list[Buffer] = []
    if m.metadata_hash != 0:
        _tags.append(_fmt_BBq.pack(0, 8, m.metadata_hash))
    put_tags(put, _tags)


decode = _read_consumer_group_metadata_value
encode = _write_consumer_group_metadata_value
