"""ConsumerGroupCurrentMemberAssignmentKey: generated from protocol/schemas/consumer_group_current_member_assignment_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 8
MIN_VERSION = 0
MAX_VERSION = 0

class ConsumerGroupCurrentMemberAssignmentKey(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str = ""


def _read_consumer_group_current_member_assignment_key(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupCurrentMemberAssignmentKey, int]:
    group_id, pos = read_string(buf, pos)
    member_id, pos = read_string(buf, pos)
    return ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), pos


def _write_consumer_group_current_member_assignment_key(put: Put, m: ConsumerGroupCurrentMemberAssignmentKey, version: int) -> None:
    put(string(m.group_id))
    put(string(m.member_id))


decode = _read_consumer_group_current_member_assignment_key
encode = _write_consumer_group_current_member_assignment_key
