"""FeatureLevelRecord: generated from protocol/schemas/feature_level_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_string,
    skip_tags,
)

_fmt_h = _Struct(">h")

RECORD_TYPE = 12
MIN_VERSION = 0
MAX_VERSION = 0

class FeatureLevelRecord(msgspec.Struct, gc=False):
    name: str = ""
    feature_level: int = 0


def _read_feature_level_record(buf: Buffer, pos: int, version: int) -> tuple[FeatureLevelRecord, int]:
    name, pos = read_compact_string(buf, pos)
    (feature_level,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return FeatureLevelRecord(name, feature_level), pos


def _write_feature_level_record(put: Put, m: FeatureLevelRecord, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_h.pack(m.feature_level))
    put(b"\0")


decode = _read_feature_level_record
encode = _write_feature_level_record
