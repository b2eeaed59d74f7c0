"""ShareUpdateValue: generated from protocol/schemas/share_update_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    put_tags,
    read_compact_length,
    read_tag,
    read_tag_count,
    skip_tags,
    uvarint,
)

_fmt_BBi = _Struct(">BBi")
_fmt_i = _Struct(">i")
_fmt_iiq = _Struct(">iiq")
_fmt_qqbh = _Struct(">qqbh")

RECORD_TYPE = 1
MIN_VERSION = 0
MAX_VERSION = 0

class StateBatch(msgspec.Struct, gc=False):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


def _read_state_batch(buf: Buffer, pos: int, version: int) -> tuple[StateBatch, int]:
    first_offset, last_offset, delivery_state, delivery_count = _fmt_qqbh.unpack_from(buf, pos)
    pos += 19
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StateBatch(first_offset, last_offset, delivery_state, delivery_count), pos


def _write_state_batch(put: Put, m: StateBatch, version: int) -> None:
    put(_fmt_qqbh.pack(m.first_offset, m.last_offset, m.delivery_state, m.delivery_count))
    put(b"\0")


class ShareUpdateValue(msgspec.Struct, gc=False):
    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: list[StateBatch] = []


def _read_share_update_value(buf: Buffer, pos: int, version: int) -> tuple[ShareUpdateValue, int]:
    snapshot_epoch, leader_epoch, start_offset = _fmt_iiq.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    state_batches: list[StateBatch] = []
    for _ in range(_count):
        _state_batches_item, pos = _read_state_batch(buf, pos, version)
        state_batches.append(_state_batches_item)
    delivery_complete_count: int = -1
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (delivery_complete_count,) = _fmt_i.unpack_from(buf, pos)
            pos += 4
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return ShareUpdateValue(snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, state_batches), pos


def _write_share_update_value(put: Put, m: ShareUpdateValue, version: int) -> None:
    put(_fmt_iiq.pack(m.snapshot_epoch, m.leader_epoch, m.start_offset))
    put(uvarint(len(m.state_batches) + 1))
    for item_state_batches in m.state_batches:
        _write_state_batch(put, item_state_batches, version)
    _tags: list[Buffer] = []
    if m.delivery_complete_count != -1:
        _tags.append(_fmt_BBi.pack(0, 4, m.delivery_complete_count))
    put_tags(put, _tags)


decode = _read_share_update_value
encode = _write_share_update_value
