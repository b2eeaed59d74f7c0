"""ConsumerGroupRegularExpressionKey: generated from protocol/schemas/consumer_group_regular_expression_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 16
MIN_VERSION = 0
MAX_VERSION = 0

class ConsumerGroupRegularExpressionKey(msgspec.Struct, gc=False):
    group_id: str = ""
    regular_expression: str = ""


def _read_consumer_group_regular_expression_key(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupRegularExpressionKey, int]:
    group_id, pos = read_string(buf, pos)
    regular_expression, pos = read_string(buf, pos)
    return ConsumerGroupRegularExpressionKey(group_id, regular_expression), pos


def _write_consumer_group_regular_expression_key(put: Put, m: ConsumerGroupRegularExpressionKey, version: int) -> None:
    put(string(m.group_id))
    put(string(m.regular_expression))


decode = _read_consumer_group_regular_expression_key
encode = _write_consumer_group_regular_expression_key
