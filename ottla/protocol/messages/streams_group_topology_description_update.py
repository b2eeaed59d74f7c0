"""StreamsGroupTopologyDescriptionUpdate: generated from protocol/schemas/streams_group_topology_description_update.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 93

class TopologyDescription(msgspec.Struct, gc=False):
    subtopologies: list[TopologyDescriptionSubtopology] = []
    global_stores: list[TopologyDescriptionGlobalStore] = []


def _read_topology_description(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescription, int]:
    _count, pos = read_compact_length(buf, pos)
    subtopologies: list[TopologyDescriptionSubtopology] = []
    for _ in range(_count):
        _subtopologies_item, pos = _read_topology_description_subtopology(buf, pos, version)
        subtopologies.append(_subtopologies_item)
    _count, pos = read_compact_length(buf, pos)
    global_stores: list[TopologyDescriptionGlobalStore] = []
    for _ in range(_count):
        _global_stores_item, pos = _read_topology_description_global_store(buf, pos, version)
        global_stores.append(_global_stores_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescription(subtopologies, global_stores), pos


def _write_topology_description(put: Put, m: TopologyDescription, version: int) -> None:
    put(uvarint(len(m.subtopologies) + 1))
    for item_subtopologies in m.subtopologies:
        _write_topology_description_subtopology(put, item_subtopologies, version)
    put(uvarint(len(m.global_stores) + 1))
    for item_global_stores in m.global_stores:
        _write_topology_description_global_store(put, item_global_stores, version)
    put(b"\0")


class TopologyDescriptionSubtopology(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    nodes: list[TopologyDescriptionNode] = []


def _read_topology_description_subtopology(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescriptionSubtopology, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    nodes: list[TopologyDescriptionNode] = []
    for _ in range(_count):
        _nodes_item, pos = _read_topology_description_node(buf, pos, version)
        nodes.append(_nodes_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescriptionSubtopology(subtopology_id, nodes), pos


def _write_topology_description_subtopology(put: Put, m: TopologyDescriptionSubtopology, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.nodes) + 1))
    for item_nodes in m.nodes:
        _write_topology_description_node(put, item_nodes, version)
    put(b"\0")


class TopologyDescriptionNode(msgspec.Struct, gc=False):
    name: str = ""
    node_type: int = 0
    source_topics: list[str] = []
    sink_topic: str | None = None
    stores: list[str] = []
    successors: list[str] = []


def _read_topology_description_node(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescriptionNode, int]:
    name, pos = read_compact_string(buf, pos)
    (node_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    _count, pos = read_compact_length(buf, pos)
    source_topics: list[str] = []
    for _ in range(_count):
        _source_topics_item, pos = read_compact_string(buf, pos)
        source_topics.append(_source_topics_item)
    sink_topic, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    stores: list[str] = []
    for _ in range(_count):
        _stores_item, pos = read_compact_string(buf, pos)
        stores.append(_stores_item)
    _count, pos = read_compact_length(buf, pos)
    successors: list[str] = []
    for _ in range(_count):
        _successors_item, pos = read_compact_string(buf, pos)
        successors.append(_successors_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescriptionNode(name, node_type, source_topics, sink_topic, stores, successors), pos


def _write_topology_description_node(put: Put, m: TopologyDescriptionNode, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_b.pack(m.node_type))
    put(uvarint(len(m.source_topics) + 1))
    for item_source_topics in m.source_topics:
        put(compact_string(item_source_topics))
    put(compact_string(m.sink_topic))
    put(uvarint(len(m.stores) + 1))
    for item_stores in m.stores:
        put(compact_string(item_stores))
    put(uvarint(len(m.successors) + 1))
    for item_successors in m.successors:
        put(compact_string(item_successors))
    put(b"\0")


class TopologyDescriptionGlobalStore(msgspec.Struct, gc=False):
    source: TopologyDescriptionNode = msgspec.field(default_factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = msgspec.field(default_factory=TopologyDescriptionNode)


def _read_topology_description_global_store(buf: Buffer, pos: int, version: int) -> tuple[TopologyDescriptionGlobalStore, int]:
    source, pos = _read_topology_description_node(buf, pos, version)
    processor, pos = _read_topology_description_node(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopologyDescriptionGlobalStore(source, processor), pos


def _write_topology_description_global_store(put: Put, m: TopologyDescriptionGlobalStore, version: int) -> None:
    _write_topology_description_node(put, m.source, version)
    _write_topology_description_node(put, m.processor, version)
    put(b"\0")


class StreamsGroupTopologyDescriptionUpdateRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str = ""
    topology_epoch: int = 0
    topology_description: TopologyDescription = msgspec.field(default_factory=TopologyDescription)


def _read_streams_group_topology_description_update_request(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupTopologyDescriptionUpdateRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    member_id, pos = read_compact_string(buf, pos)
    (topology_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    topology_description, pos = _read_topology_description(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupTopologyDescriptionUpdateRequest(group_id, member_id, topology_epoch, topology_description), pos


def _write_streams_group_topology_description_update_request(put: Put, m: StreamsGroupTopologyDescriptionUpdateRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(compact_string(m.member_id))
    put(_fmt_i.pack(m.topology_epoch))
    _write_topology_description(put, m.topology_description, version)
    put(b"\0")


class StreamsGroupTopologyDescriptionUpdateResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


def _read_streams_group_topology_description_update_response(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupTopologyDescriptionUpdateResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupTopologyDescriptionUpdateResponse(throttle_time_ms, error_code, error_message), pos


def _write_streams_group_topology_description_update_response(put: Put, m: StreamsGroupTopologyDescriptionUpdateResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


decode_request = _read_streams_group_topology_description_update_request
encode_request = _write_streams_group_topology_description_update_request
decode_response = _read_streams_group_topology_description_update_response
encode_response = _write_streams_group_topology_description_update_response
