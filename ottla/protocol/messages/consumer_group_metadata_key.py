"""ConsumerGroupMetadataKey: generated from protocol/schemas/consumer_group_metadata_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 3
MIN_VERSION = 0
MAX_VERSION = 0

class ConsumerGroupMetadataKey(msgspec.Struct, gc=False):
    group_id: str = ""


def _read_consumer_group_metadata_key(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupMetadataKey, int]:
    group_id, pos = read_string(buf, pos)
    return ConsumerGroupMetadataKey(group_id), pos


def _write_consumer_group_metadata_key(put: Put, m: ConsumerGroupMetadataKey, version: int) -> None:
    put(string(m.group_id))


decode = _read_consumer_group_metadata_key
encode = _write_consumer_group_metadata_key
