"""ConsumerProtocolSubscription: generated from protocol/schemas/consumer_protocol_subscription.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    bytes_length,
    length,
    read_length,
    read_nullable_bytes,
    read_nullable_string,
    read_string,
    string,
)

_fmt_i = _Struct(">i")

RECORD_TYPE = -1
MIN_VERSION = 0
MAX_VERSION = 3

class TopicPartition(msgspec.Struct, gc=False):
    topic: str = ""
    partitions: list[int] = []


def _read_topic_partition(buf: Buffer, pos: int, version: int) -> tuple[TopicPartition, int]:
    topic: str = ""
    if version >= 1:
        topic, pos = read_string(buf, pos)
    partitions: list[int] = []
    if version >= 1:
        _count, pos = read_length(buf, pos)
        partitions = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    return TopicPartition(topic, partitions), pos


def _write_topic_partition(put: Put, m: TopicPartition, version: int) -> None:
    if version >= 1:
        put(string(m.topic))
    if version >= 1:
        put(length(len(m.partitions)))
        put(pack(f">{len(m.partitions)}i", *m.partitions))


class ConsumerProtocolSubscription(msgspec.Struct, gc=False):
    topics: list[str] = []
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = []
    generation_id: int = -1
    rack_id: str | None = None


def _read_consumer_protocol_subscription(buf: Buffer, pos: int, version: int) -> tuple[ConsumerProtocolSubscription, int]:
    _count, pos = read_length(buf, pos)
    topics: list[str] = []
    for _ in range(_count):
        _topics_item, pos = read_string(buf, pos)
        topics.append(_topics_item)
    user_data, pos = read_nullable_bytes(buf, pos)
    owned_partitions: list[TopicPartition] = []
    if version >= 1:
        _count, pos = read_length(buf, pos)
        owned_partitions = []
        for _ in range(_count):
            _owned_partitions_item, pos = _read_topic_partition(buf, pos, version)
            owned_partitions.append(_owned_partitions_item)
    generation_id: int = -1
    if version >= 2:
        (generation_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    rack_id: str | None = None
    if version >= 3:
        rack_id, pos = read_nullable_string(buf, pos)
    return ConsumerProtocolSubscription(topics, user_data, owned_partitions, generation_id, rack_id), pos


def _write_consumer_protocol_subscription(put: Put, m: ConsumerProtocolSubscription, version: int) -> None:
    put(length(len(m.topics)))
    for item_topics in m.topics:
        put(string(item_topics))
    put(bytes_length(m.user_data))
    if m.user_data is not None:
        put(m.user_data)
    if version >= 1:
        put(length(len(m.owned_partitions)))
        for item_owned_partitions in m.owned_partitions:
            _write_topic_partition(put, item_owned_partitions, version)
    if version >= 2:
        put(_fmt_i.pack(m.generation_id))
    if version >= 3:
        put(string(m.rack_id))


decode = _read_consumer_protocol_subscription
encode = _write_consumer_protocol_subscription
