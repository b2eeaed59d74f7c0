"""ConsumerGroupTargetAssignmentMetadataKey: generated from protocol/schemas/consumer_group_target_assignment_metadata_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 6
MIN_VERSION = 0
MAX_VERSION = 0

class ConsumerGroupTargetAssignmentMetadataKey(msgspec.Struct, gc=False):
    group_id: str = ""


def _read_consumer_group_target_assignment_metadata_key(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupTargetAssignmentMetadataKey, int]:
    group_id, pos = read_string(buf, pos)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id), pos


def _write_consumer_group_target_assignment_metadata_key(put: Put, m: ConsumerGroupTargetAssignmentMetadataKey, version: int) -> None:
    put(string(m.group_id))


decode = _read_consumer_group_target_assignment_metadata_key
encode = _write_consumer_group_target_assignment_metadata_key
