"""ShareGroupMetadataValue: generated from protocol/schemas/share_group_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_iq = _Struct(">iq")

RECORD_TYPE = 11
MIN_VERSION = 0
MAX_VERSION = 0

class ShareGroupMetadataValue(msgspec.Struct, gc=False):
    epoch: int = 0
    metadata_hash: int = 0


def _read_share_group_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupMetadataValue, int]:
    epoch, metadata_hash = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupMetadataValue(epoch, metadata_hash), pos


def _write_share_group_metadata_value(put: Put, m: ShareGroupMetadataValue, version: int) -> None:
    put(_fmt_iq.pack(m.epoch, m.metadata_hash))
    put(b"\0")


decode = _read_share_group_metadata_value
encode = _write_share_group_metadata_value
