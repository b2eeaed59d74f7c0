"""PartitionChangeRecord: generated from protocol/schemas/partition_change_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    put_tags,
    read_compact_nullable_length,
    read_tag,
    read_tag_count,
    tagged_field,
    uvarint,
)

_fmt_BBb = _Struct(">BBb")
_fmt_BBi = _Struct(">BBi")
_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")
_fmt_iU_ = _Struct(">i16s")

RECORD_TYPE = 5
MIN_VERSION = 0
MAX_VERSION = 2

class PartitionChangeRecord(msgspec.Struct, gc=False):
    partition_id: int = -1
    topic_id: bytes = NO_UUID
    isr: list[int] | None = None
    leader: int = -2
    replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    leader_recovery_state: int = -1
    directories: list[bytes] | None = None
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


def _read_partition_change_record(buf: Buffer, pos: int, version: int) -> tuple[PartitionChangeRecord, int]:
    partition_id, topic_id = _fmt_iU_.unpack_from(buf, pos)
    pos += 20
    isr: list[int] | None = None
    leader: int = -2
    replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    leader_recovery_state: int = -1
    directories: list[bytes] | None = None
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            _count, pos = read_compact_nullable_length(buf, pos)
            isr = None
            if _count >= 0:
                isr = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        elif _tag == 1:
            (leader,) = _fmt_i.unpack_from(buf, pos)
            pos += 4
        elif _tag == 2:
            _count, pos = read_compact_nullable_length(buf, pos)
            replicas = None
            if _count >= 0:
                replicas = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        elif _tag == 3:
            _count, pos = read_compact_nullable_length(buf, pos)
            removing_replicas = None
            if _count >= 0:
                removing_replicas = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        elif _tag == 4:
            _count, pos = read_compact_nullable_length(buf, pos)
            adding_replicas = None
            if _count >= 0:
                adding_replicas = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        elif _tag == 5:
            (leader_recovery_state,) = _fmt_b.unpack_from(buf, pos)
            pos += 1
        elif _tag == 8:
            _count, pos = read_compact_nullable_length(buf, pos)
            directories = None
            if _count >= 0:
                directories = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
                pos += 16 * _count
        elif _tag == 6:
            _count, pos = read_compact_nullable_length(buf, pos)
            eligible_leader_replicas = None
            if _count >= 0:
                eligible_leader_replicas = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        elif _tag == 7:
            _count, pos = read_compact_nullable_length(buf, pos)
            last_known_elr = None
            if _count >= 0:
                last_known_elr = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return PartitionChangeRecord(partition_id, topic_id, isr, leader, replicas, removing_replicas, adding_replicas, leader_recovery_state, directories, eligible_leader_replicas, last_known_elr), pos


def _write_partition_change_record(put: Put, m: PartitionChangeRecord, version: int) -> None:
    put(_fmt_iU_.pack(m.partition_id, m.topic_id))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.isr is not None:
        _parts = []
        if m.isr is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.isr) + 1))
            _parts.append(pack(f">{len(m.isr)}i", *m.isr))
        _tags.append(tagged_field(0, _parts))
    if m.leader != -2:
        _tags.append(_fmt_BBi.pack(1, 4, m.leader))
    if m.replicas is not None:
        _parts = []
        if m.replicas is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.replicas) + 1))
            _parts.append(pack(f">{len(m.replicas)}i", *m.replicas))
        _tags.append(tagged_field(2, _parts))
    if m.removing_replicas is not None:
        _parts = []
        if m.removing_replicas is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.removing_replicas) + 1))
            _parts.append(pack(f">{len(m.removing_replicas)}i", *m.removing_replicas))
        _tags.append(tagged_field(3, _parts))
    if m.adding_replicas is not None:
        _parts = []
        if m.adding_replicas is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.adding_replicas) + 1))
            _parts.append(pack(f">{len(m.adding_replicas)}i", *m.adding_replicas))
        _tags.append(tagged_field(4, _parts))
    if m.leader_recovery_state != -1:
        _tags.append(_fmt_BBb.pack(5, 1, m.leader_recovery_state))
    if version >= 2 and m.eligible_leader_replicas is not None:
        _parts = []
        if m.eligible_leader_replicas is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.eligible_leader_replicas) + 1))
            _parts.append(pack(f">{len(m.eligible_leader_replicas)}i", *m.eligible_leader_replicas))
        _tags.append(tagged_field(6, _parts))
    if version >= 2 and m.last_known_elr is not None:
        _parts = []
        if m.last_known_elr is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.last_known_elr) + 1))
            _parts.append(pack(f">{len(m.last_known_elr)}i", *m.last_known_elr))
        _tags.append(tagged_field(7, _parts))
    if version >= 1 and m.directories is not None:
        _parts = []
        if m.directories is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.directories) + 1))
            for item_directories in m.directories:
                _parts.append(item_directories)
        _tags.append(tagged_field(8, _parts))
    put_tags(put, _tags)


decode = _read_partition_change_record
encode = _write_partition_change_record
