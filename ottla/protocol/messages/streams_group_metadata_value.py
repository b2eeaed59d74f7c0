"""StreamsGroupMetadataValue: generated from protocol/schemas/streams_group_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    put_tags,
    read_compact_nullable_length,
    read_compact_string,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_BBi = _Struct(">BBi")
_fmt_i = _Struct(">i")
_fmt_iq = _Struct(">iq")

RECORD_TYPE = 17
MIN_VERSION = 0
MAX_VERSION = 0

class LastAssignmentConfig(msgspec.Struct, gc=False):
    key: str = ""
    value: str = ""


def _read_last_assignment_config(buf: Buffer, pos: int, version: int) -> tuple[LastAssignmentConfig, int]:
    key, pos = read_compact_string(buf, pos)
    value, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return LastAssignmentConfig(key, value), pos


def _write_last_assignment_config(put: Put, m: LastAssignmentConfig, version: int) -> None:
    put(compact_string(m.key))
    put(compact_string(m.value))
    put(b"\0")


class StreamsGroupMetadataValue(msgspec.Struct, gc=False):
    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: list[LastAssignmentConfig] | None = []
    stored_description_topology_epoch: int = -1
    failed_description_topology_epoch: int = -1


def _read_streams_group_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupMetadataValue, int]:
    epoch, metadata_hash = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    validated_topology_epoch: int = -1
    last_assignment_configs: list[LastAssignmentConfig] | None = []
    stored_description_topology_epoch: int = -1
    failed_description_topology_epoch: int = -1
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (validated_topology_epoch,) = _fmt_i.unpack_from(buf, pos)
            pos += 4
        elif _tag == 1:
            _count, pos = read_compact_nullable_length(buf, pos)
            last_assignment_configs = None
            if _count >= 0:
                last_assignment_configs = []
                for _ in range(_count):
                    _last_assignment_configs_item, pos = _read_last_assignment_config(buf, pos, version)
                    last_assignment_configs.append(_last_assignment_configs_item)
        elif _tag == 2:
            (stored_description_topology_epoch,) = _fmt_i.unpack_from(buf, pos)
            pos += 4
        elif _tag == 3:
            (failed_description_topology_epoch,) = _fmt_i.unpack_from(buf, pos)
            pos += 4
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return StreamsGroupMetadataValue(epoch, metadata_hash, validated_topology_epoch, last_assignment_configs, stored_description_topology_epoch, failed_description_topology_epoch), pos


def _write_streams_group_metadata_value(put: Put, m: StreamsGroupMetadataValue, version: int) -> None:
    put(_fmt_iq.pack(m.epoch, m.metadata_hash))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.validated_topology_epoch != -1:
        _tags.append(_fmt_BBi.pack(0, 4, m.validated_topology_epoch))
    if (m.last_assignment_configs is None or m.last_assignment_configs):
        _parts = []
        if m.last_assignment_configs is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.last_assignment_configs) + 1))
            for item_last_assignment_configs in m.last_assignment_configs:
                _write_last_assignment_config(_parts.append, item_last_assignment_configs, version)
        _tags.append(tagged_field(1, _parts))
    if m.stored_description_topology_epoch != -1:
        _tags.append(_fmt_BBi.pack(2, 4, m.stored_description_topology_epoch))
    if m.failed_description_topology_epoch != -1:
        _tags.append(_fmt_BBi.pack(3, 4, m.failed_description_topology_epoch))
    put_tags(put, _tags)


decode = _read_streams_group_metadata_value
encode = _write_streams_group_metadata_value
