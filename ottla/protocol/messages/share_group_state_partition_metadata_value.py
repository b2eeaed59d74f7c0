"""ShareGroupStatePartitionMetadataValue: generated from protocol/schemas/share_group_state_partition_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")

RECORD_TYPE = 15
MIN_VERSION = 0
MAX_VERSION = 0

class TopicPartitionsInfo(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    topic_name: str = ""
    partitions: list[int] = []


def _read_topic_partitions_info(buf: Buffer, pos: int, version: int) -> tuple[TopicPartitionsInfo, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    topic_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicPartitionsInfo(topic_id, topic_name, partitions), pos


def _write_topic_partitions_info(put: Put, m: TopicPartitionsInfo, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(compact_string(m.topic_name))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class TopicInfo(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    topic_name: str = ""


def _read_topic_info(buf: Buffer, pos: int, version: int) -> tuple[TopicInfo, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    topic_name, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicInfo(topic_id, topic_name), pos


def _write_topic_info(put: Put, m: TopicInfo, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(compact_string(m.topic_name))
    put(b"\0")


class ShareGroupStatePartitionMetadataValue(msgspec.Struct, gc=False):
    initializing_topics: list[TopicPartitionsInfo] = []
    initialized_topics: list[TopicPartitionsInfo] = []
    deleting_topics: list[TopicInfo] = []


def _read_share_group_state_partition_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupStatePartitionMetadataValue, int]:
    _count, pos = read_compact_length(buf, pos)
    initializing_topics: list[TopicPartitionsInfo] = []
    for _ in range(_count):
        _initializing_topics_item, pos = _read_topic_partitions_info(buf, pos, version)
        initializing_topics.append(_initializing_topics_item)
    _count, pos = read_compact_length(buf, pos)
    initialized_topics: list[TopicPartitionsInfo] = []
    for _ in range(_count):
        _initialized_topics_item, pos = _read_topic_partitions_info(buf, pos, version)
        initialized_topics.append(_initialized_topics_item)
    _count, pos = read_compact_length(buf, pos)
    deleting_topics: list[TopicInfo] = []
    for _ in range(_count):
        _deleting_topics_item, pos = _read_topic_info(buf, pos, version)
        deleting_topics.append(_deleting_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupStatePartitionMetadataValue(initializing_topics, initialized_topics, deleting_topics), pos


def _write_share_group_state_partition_metadata_value(put: Put, m: ShareGroupStatePartitionMetadataValue, version: int) -> None:
    put(uvarint(len(m.initializing_topics) + 1))
    for item_initializing_topics in m.initializing_topics:
        _write_topic_partitions_info(put, item_initializing_topics, version)
    put(uvarint(len(m.initialized_topics) + 1))
    for item_initialized_topics in m.initialized_topics:
        _write_topic_partitions_info(put, item_initialized_topics, version)
    put(uvarint(len(m.deleting_topics) + 1))
    for item_deleting_topics in m.deleting_topics:
        _write_topic_info(put, item_deleting_topics, version)
    put(b"\0")


decode = _read_share_group_state_partition_metadata_value
encode = _write_share_group_state_partition_metadata_value
