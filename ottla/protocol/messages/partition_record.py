"""PartitionRecord: generated from protocol/schemas/partition_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_tag,
    read_tag_count,
    tagged_field,
    uvarint,
)

_fmt_BBb = _Struct(">BBb")
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
    _count, pos = read_compact_length(buf, pos)
    replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    isr: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    removing_replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    _count, pos = read_compact_length(buf, pos)
    adding_replicas: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    leader, leader_epoch, partition_epoch = _fmt_iii.unpack_from(buf, pos)
    pos += 12
    directories: list[bytes] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        directories = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
        pos += 16 * _count
    leader_recovery_state: int = 0
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (leader_recovery_state,) = _fmt_b.unpack_from(buf, pos)
            pos += 1
        elif _tag == 1:
            _count, pos = read_compact_nullable_length(buf, pos)
            eligible_leader_replicas = None
            if _count >= 0:
                eligible_leader_replicas = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        elif _tag == 2:
            _count, pos = read_compact_nullable_length(buf, pos)
            last_known_elr = None
            if _count >= 0:
                last_known_elr = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        else:
            pos = _end
        if pos != _end:
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
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.leader_recovery_state != 0:
        _tags.append(_fmt_BBb.pack(0, 1, m.leader_recovery_state))
    if version >= 2 and m.eligible_leader_replicas is not None:
        _parts = []
        if m.eligible_leader_replicas is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.eligible_leader_replicas) + 1))
            _parts.append(pack(f">{len(m.eligible_leader_replicas)}i", *m.eligible_leader_replicas))
        _tags.append(tagged_field(1, _parts))
    if version >= 2 and m.last_known_elr is not None:
        _parts = []
        if m.last_known_elr is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.last_known_elr) + 1))
            _parts.append(pack(f">{len(m.last_known_elr)}i", *m.last_known_elr))
        _tags.append(tagged_field(2, _parts))
    put_tags(put, _tags)


decode = _read_partition_record
encode = _write_partition_record
