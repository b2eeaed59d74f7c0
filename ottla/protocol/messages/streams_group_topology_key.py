"""StreamsGroupTopologyKey: generated from protocol/schemas/streams_group_topology_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 23
MIN_VERSION = 0
MAX_VERSION = 0

class StreamsGroupTopologyKey(msgspec.Struct, gc=False):
    group_id: str = ""


def _read_streams_group_topology_key(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupTopologyKey, int]:
    group_id, pos = read_string(buf, pos)
    return StreamsGroupTopologyKey(group_id), pos


def _write_streams_group_topology_key(put: Put, m: StreamsGroupTopologyKey, version: int) -> None:
    put(string(m.group_id))


decode = _read_streams_group_topology_key
encode = _write_streams_group_topology_key
