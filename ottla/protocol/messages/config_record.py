"""ConfigRecord: generated from protocol/schemas/config_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
)

_fmt_b = _Struct(">b")

RECORD_TYPE = 4
MIN_VERSION = 0
MAX_VERSION = 0

class ConfigRecord(msgspec.Struct, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""


def _read_config_record(buf: Buffer, pos: int, version: int) -> tuple[ConfigRecord, int]:
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = read_compact_string(buf, pos)
    name, pos = read_compact_string(buf, pos)
    value, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ConfigRecord(resource_type, resource_name, name, value), pos


def _write_config_record(put: Put, m: ConfigRecord, version: int) -> None:
    put(_fmt_b.pack(m.resource_type))
    put(compact_string(m.resource_name))
    put(compact_string(m.name))
    put(compact_string(m.value))
    put(b"\0")


decode = _read_config_record
encode = _write_config_record
