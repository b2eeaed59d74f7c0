"""StreamsGroupTopologyValue: generated from protocol/schemas/streams_group_topology_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

RECORD_TYPE = 23
MIN_VERSION = 0
MAX_VERSION = 0

class TopicConfig(msgspec.Struct, gc=False):
    key: str = ""
    value: str = ""


def _read_topic_config(buf: Buffer, pos: int, version: int) -> tuple[TopicConfig, int]:
    key, pos = read_compact_string(buf, pos)
    value, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicConfig(key, value), pos


def _write_topic_config(put: Put, m: TopicConfig, version: int) -> None:
    put(compact_string(m.key))
    put(compact_string(m.value))
    put(b"\0")


class TopicInfo(msgspec.Struct, gc=False):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[TopicConfig] = []


def _read_topic_info(buf: Buffer, pos: int, version: int) -> tuple[TopicInfo, int]:
    name, pos = read_compact_string(buf, pos)
    partitions, replication_factor = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    topic_configs: list[TopicConfig] = []
    for _ in range(_count):
        _topic_configs_item, pos = _read_topic_config(buf, pos, version)
        topic_configs.append(_topic_configs_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicInfo(name, partitions, replication_factor, topic_configs), pos


def _write_topic_info(put: Put, m: TopicInfo, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_ih.pack(m.partitions, m.replication_factor))
    put(uvarint(len(m.topic_configs) + 1))
    for item_topic_configs in m.topic_configs:
        _write_topic_config(put, item_topic_configs, version)
    put(b"\0")


class CopartitionGroup(msgspec.Struct, gc=False):
    source_topics: list[int] = []
    source_topic_regex: list[int] = []
    repartition_source_topics: list[int] = []


def _read_copartition_group(buf: Buffer, pos: int, version: int) -> tuple[CopartitionGroup, int]:
    _count, pos = read_compact_length(buf, pos)
    source_topics: list[int] = list(unpack_from(f">{_count}h", buf, pos))
    pos += 2 * _count
    _count, pos = read_compact_length(buf, pos)
    source_topic_regex: list[int] = list(unpack_from(f">{_count}h", buf, pos))
    pos += 2 * _count
    _count, pos = read_compact_length(buf, pos)
    repartition_source_topics: list[int] = list(unpack_from(f">{_count}h", buf, pos))
    pos += 2 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return CopartitionGroup(source_topics, source_topic_regex, repartition_source_topics), pos


def _write_copartition_group(put: Put, m: CopartitionGroup, version: int) -> None:
    put(uvarint(len(m.source_topics) + 1))
    put(pack(f">{len(m.source_topics)}h", *m.source_topics))
    put(uvarint(len(m.source_topic_regex) + 1))
    put(pack(f">{len(m.source_topic_regex)}h", *m.source_topic_regex))
    put(uvarint(len(m.repartition_source_topics) + 1))
    put(pack(f">{len(m.repartition_source_topics)}h", *m.repartition_source_topics))
    put(b"\0")


class Subtopology(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


def _read_subtopology(buf: Buffer, pos: int, version: int) -> tuple[Subtopology, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    source_topics: list[str] = []
    for _ in range(_count):
        _source_topics_item, pos = read_compact_string(buf, pos)
        source_topics.append(_source_topics_item)
    _count, pos = read_compact_length(buf, pos)
    source_topic_regex: list[str] = []
    for _ in range(_count):
        _source_topic_regex_item, pos = read_compact_string(buf, pos)
        source_topic_regex.append(_source_topic_regex_item)
    _count, pos = read_compact_length(buf, pos)
    state_changelog_topics: list[TopicInfo] = []
    for _ in range(_count):
        _state_changelog_topics_item, pos = _read_topic_info(buf, pos, version)
        state_changelog_topics.append(_state_changelog_topics_item)
    _count, pos = read_compact_length(buf, pos)
    repartition_sink_topics: list[str] = []
    for _ in range(_count):
        _repartition_sink_topics_item, pos = read_compact_string(buf, pos)
        repartition_sink_topics.append(_repartition_sink_topics_item)
    _count, pos = read_compact_length(buf, pos)
    repartition_source_topics: list[TopicInfo] = []
    for _ in range(_count):
        _repartition_source_topics_item, pos = _read_topic_info(buf, pos, version)
        repartition_source_topics.append(_repartition_source_topics_item)
    _count, pos = read_compact_length(buf, pos)
    copartition_groups: list[CopartitionGroup] = []
    for _ in range(_count):
        _copartition_groups_item, pos = _read_copartition_group(buf, pos, version)
        copartition_groups.append(_copartition_groups_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Subtopology(subtopology_id, source_topics, source_topic_regex, state_changelog_topics, repartition_sink_topics, repartition_source_topics, copartition_groups), pos


def _write_subtopology(put: Put, m: Subtopology, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.source_topics) + 1))
    for item_source_topics in m.source_topics:
        put(compact_string(item_source_topics))
    put(uvarint(len(m.source_topic_regex) + 1))
    for item_source_topic_regex in m.source_topic_regex:
        put(compact_string(item_source_topic_regex))
    put(uvarint(len(m.state_changelog_topics) + 1))
    for item_state_changelog_topics in m.state_changelog_topics:
        _write_topic_info(put, item_state_changelog_topics, version)
    put(uvarint(len(m.repartition_sink_topics) + 1))
    for item_repartition_sink_topics in m.repartition_sink_topics:
        put(compact_string(item_repartition_sink_topics))
    put(uvarint(len(m.repartition_source_topics) + 1))
    for item_repartition_source_topics in m.repartition_source_topics:
        _write_topic_info(put, item_repartition_source_topics, version)
    put(uvarint(len(m.copartition_groups) + 1))
    for item_copartition_groups in m.copartition_groups:
        _write_copartition_group(put, item_copartition_groups, version)
    put(b"\0")


class StreamsGroupTopologyValue(msgspec.Struct, gc=False):
    epoch: int = 0
    subtopologies: list[Subtopology] = []


def _read_streams_group_topology_value(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupTopologyValue, int]:
    (epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    subtopologies: list[Subtopology] = []
    for _ in range(_count):
        _subtopologies_item, pos = _read_subtopology(buf, pos, version)
        subtopologies.append(_subtopologies_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupTopologyValue(epoch, subtopologies), pos


def _write_streams_group_topology_value(put: Put, m: StreamsGroupTopologyValue, version: int) -> None:
    put(_fmt_i.pack(m.epoch))
    put(uvarint(len(m.subtopologies) + 1))
    for item_subtopologies in m.subtopologies:
        _write_subtopology(put, item_subtopologies, version)
    put(b"\0")


decode = _read_streams_group_topology_value
encode = _write_streams_group_topology_value
