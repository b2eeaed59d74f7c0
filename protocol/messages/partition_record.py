"""PartitionRecord: generated from protocol/schemas/partition_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from protocol.errors import DecodeError
from protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_tag,
    read_tag_count,
    uvarint,
)

_fmt_b = _Struct(">b")
_fmt_iU_ = _Struct(">i16s")
_fmt_iii = _Struct(">iii")

RECORD_TYPE = 3
MIN_VERSION = 0
MAX_VERSION = 2

class PartitionRecord(msgspec.Struct, gc=False):
    partition_id: int = -1
    topic_id: bytes = NO_UUID
    replicas: list[int] = []
    isr: list[int] = []
    removing_replicas: list[int] = []
    adding_replicas: list[int] = []
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: list[bytes] = []
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


def _read_partition_record(buf: Buffer, pos: int, version: int) -> tuple[PartitionRecord, int]:
    partition_id, topic_id = _fmt_iU_.unpack_from(buf, pos)
    pos += 20
    count, pos = read_compact_length(buf, pos)
    replicas: list[int] = list(unpack_from(f">{count}i", buf, pos))
    pos += 4 * count
    count, pos = read_compact_length(buf, pos)
    isr: list[int] = list(unpack_from(f">{count}i", buf, pos))
    pos += 4 * count
    count, pos = read_compact_length(buf, pos)
    removing_replicas: list[int] = list(unpack_from(f">{count}i", buf, pos))
    pos += 4 * count
    count, pos = read_compact_length(buf, pos)
    adding_replicas: list[int] = list(unpack_from(f">{count}i", buf, pos))
    pos += 4 * count
    leader, leader_epoch, partition_epoch = _fmt_iii.unpack_from(buf, pos)
    pos += 12
    directories: list[bytes] = []
    if version >= 1:
        count, pos = read_compact_length(buf, pos)
        directories = [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]
        pos += 16 * count
    leader_recovery_state: int = 0
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    tags, pos = read_tag_count(buf, pos)
    for _ in range(tags):
        tag, at, end = read_tag(buf, pos)
        pos = at
        if tag == 0:
            (leader_recovery_state,) = _fmt_b.unpack_from(buf, pos)
            pos += 1
        elif tag == 1:
            count, pos = read_compact_nullable_length(buf, pos)
            eligible_leader_replicas = None
            if count >= 0:
                eligible_leader_replicas = list(unpack_from(f">{count}i", buf, pos))
                pos += 4 * count
        elif tag == 2:
            count, pos = read_compact_nullable_length(buf, pos)
            last_known_elr = None
            if count >= 0:
                last_known_elr = list(unpack_from(f">{count}i", buf, pos))
                pos += 4 * count
        else:
            pos = end
        if pos != end:
            raise DecodeError("a tagged field of another size than declared")
    return PartitionRecord(partition_id, topic_id, replicas, isr, removing_replicas, adding_replicas, leader, leader_recovery_state, leader_epoch, partition_epoch, directories, eligible_leader_replicas, last_known_elr), pos


def _write_partition_record(put: Put, m: PartitionRecord, version: int) -> None:
    put(_fmt_iU_.pack(m.partition_id, m.topic_id))
    put(uvarint(len(m.replicas) + 1))
    put(pack(f">{len(m.replicas)}i", *m.replicas))
    put(uvarint(len(m.isr) + 1))
    put(pack(f">{len(m.isr)}i", *m.isr))
    put(uvarint(len(m.removing_replicas) + 1))
    put(pack(f">{len(m.removing_replicas)}i", *m.removing_replicas))
    put(uvarint(len(m.adding_replicas) + 1))
    put(pack(f">{len(m.adding_replicas)}i", *m.adding_replicas))
    put(_fmt_iii.pack(m.leader, m.leader_epoch, m.partition_epoch))
    if version >= 1:
        put(uvarint(len(m.directories) + 1))
        for item_directories in m.directories:
            put(item_directories)
    tags: list[tuple[int, list[Buffer]]] = []
    parts: list[Buffer]
    if m.leader_recovery_state != 0:
        parts = []
        parts.append(_fmt_b.pack(m.leader_recovery_state))
        tags.append((0, parts))
    if version >= 2 and m.eligible_leader_replicas is not None:
        parts = []
        if m.eligible_leader_replicas is None:
            parts.append(b"\0")
        else:
            parts.append(uvarint(len(m.eligible_leader_replicas) + 1))
            parts.append(pack(f">{len(m.eligible_leader_replicas)}i", *m.eligible_leader_replicas))
        tags.append((1, parts))
    if version >= 2 and m.last_known_elr is not None:
        parts = []
        if m.last_known_elr is None:
            parts.append(b"\0")
        else:
            parts.append(uvarint(len(m.last_known_elr) + 1))
            parts.append(pack(f">{len(m.last_known_elr)}i", *m.last_known_elr))
        tags.append((2, parts))
    put_tags(put, tags)


decode = _read_partition_record
encode = _write_partition_record
