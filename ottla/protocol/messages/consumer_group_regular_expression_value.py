"""ConsumerGroupRegularExpressionValue: generated from protocol/schemas/consumer_group_regular_expression_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

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

_fmt_qq = _Struct(">qq")

RECORD_TYPE = 16
MIN_VERSION = 0
MAX_VERSION = 0

class ConsumerGroupRegularExpressionValue(msgspec.Struct, gc=False):
    topics: list[str] = []
    version: int = 0
    timestamp: int = 0


def _read_consumer_group_regular_expression_value(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupRegularExpressionValue, int]:
    _count, pos = read_compact_length(buf, pos)
    topics: list[str] = []
    for _ in range(_count):
        _topics_item, pos = read_compact_string(buf, pos)
        topics.append(_topics_item)
    version_, timestamp = _fmt_qq.unpack_from(buf, pos)
    pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ConsumerGroupRegularExpressionValue(topics, version_, timestamp), pos


def _write_consumer_group_regular_expression_value(put: Put, m: ConsumerGroupRegularExpressionValue, version: int) -> None:
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        put(compact_string(item_topics))
    put(_fmt_qq.pack(m.version, m.timestamp))
    put(b"\0")


decode = _read_consumer_group_regular_expression_value
encode = _write_consumer_group_regular_expression_value
