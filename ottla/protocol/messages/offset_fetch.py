"""OffsetFetch: generated from protocol/schemas/offset_fetch.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_B_ = _Struct(">?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_iq = _Struct(">iq")
_fmt_iqi = _Struct(">iqi")

API_KEY = 9

class OffsetFetchRequestTopic(msgspec.Struct, gc=False):
    name: str = ""
    partition_indexes: list[int] = []


def _read_offset_fetch_request_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchRequestTopic, int]:
    flex = version >= 6
    name: str = ""
    if version <= 7:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    partition_indexes: list[int] = []
    if version <= 7:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        partition_indexes = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchRequestTopic(name, partition_indexes), pos


def _write_offset_fetch_request_topic(put: Put, m: OffsetFetchRequestTopic, version: int) -> None:
    flex = version >= 6
    if version <= 7:
        put((compact_string if flex else string)(m.name))
    if version <= 7:
        put(uvarint(len(m.partition_indexes) + 1) if flex else length(len(m.partition_indexes)))
        put(pack(f">{len(m.partition_indexes)}i", *m.partition_indexes))
    if flex:
        put(b"\0")


class OffsetFetchRequestTopics(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partition_indexes: list[int] = []


def _read_offset_fetch_request_topics(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchRequestTopics, int]:
    flex = version >= 6
    name: str = ""
    if version >= 8 and version <= 9:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 10:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    partition_indexes: list[int] = []
    if version >= 8:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        partition_indexes = list(unpack_from(f">{_count}i", buf, pos))
        pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchRequestTopics(name, topic_id, partition_indexes), pos


def _write_offset_fetch_request_topics(put: Put, m: OffsetFetchRequestTopics, version: int) -> None:
    flex = version >= 6
    if version >= 8 and version <= 9:
        put((compact_string if flex else string)(m.name))
    if version >= 10:
        put(_fmt_U_.pack(m.topic_id))
    if version >= 8:
        put(uvarint(len(m.partition_indexes) + 1) if flex else length(len(m.partition_indexes)))
        put(pack(f">{len(m.partition_indexes)}i", *m.partition_indexes))
    if flex:
        put(b"\0")


class OffsetFetchRequestGroup(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = []


def _read_offset_fetch_request_group(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchRequestGroup, int]:
    flex = version >= 6
    group_id: str = ""
    if version >= 8:
        group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    member_id: str | None = None
    if version >= 9:
        member_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    member_epoch: int = -1
    if version >= 9:
        (member_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    topics: list[OffsetFetchRequestTopics] | None = []
    if version >= 8:
        _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
        topics = None
        if _count >= 0:
            topics = []
            for _ in range(_count):
                _topics_item, pos = _read_offset_fetch_request_topics(buf, pos, version)
                topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchRequestGroup(group_id, member_id, member_epoch, topics), pos


def _write_offset_fetch_request_group(put: Put, m: OffsetFetchRequestGroup, version: int) -> None:
    flex = version >= 6
    if version >= 8:
        put((compact_string if flex else string)(m.group_id))
    if version >= 9:
        put((compact_string if flex else string)(m.member_id))
    if version >= 9:
        put(_fmt_i.pack(m.member_epoch))
    if version >= 8:
        if m.topics is None:
            put(b"\0" if flex else b"\xff\xff\xff\xff")
        else:
            put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
            for item_topics in m.topics:
                _write_offset_fetch_request_topics(put, item_topics, version)
    if flex:
        put(b"\0")


class OffsetFetchRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = []
    groups: list[OffsetFetchRequestGroup] = []
    require_stable: bool = False


def _read_offset_fetch_request(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchRequest, int]:
    flex = version >= 6
    group_id: str = ""
    if version <= 7:
        group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    topics: list[OffsetFetchRequestTopic] | None = []
    if version <= 7:
        _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
        topics = None
        if _count >= 0:
            topics = []
            for _ in range(_count):
                _topics_item, pos = _read_offset_fetch_request_topic(buf, pos, version)
                topics.append(_topics_item)
    groups: list[OffsetFetchRequestGroup] = []
    if version >= 8:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        groups = []
        for _ in range(_count):
            _groups_item, pos = _read_offset_fetch_request_group(buf, pos, version)
            groups.append(_groups_item)
    require_stable: bool = False
    if version >= 7:
        (require_stable,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchRequest(group_id, topics, groups, require_stable), pos


def _write_offset_fetch_request(put: Put, m: OffsetFetchRequest, version: int) -> None:
    flex = version >= 6
    if version <= 7:
        put((compact_string if flex else string)(m.group_id))
    if version <= 7:
        if m.topics is None:
            put(b"\0" if flex else b"\xff\xff\xff\xff")
        else:
            put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
            for item_topics in m.topics:
                _write_offset_fetch_request_topic(put, item_topics, version)
    if version >= 8:
        put(uvarint(len(m.groups) + 1) if flex else length(len(m.groups)))
        for item_groups in m.groups:
            _write_offset_fetch_request_group(put, item_groups, version)
    if version >= 7:
        put(_fmt_B_.pack(m.require_stable))
    if flex:
        put(b"\0")


class OffsetFetchResponsePartition(msgspec.Struct, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


def _read_offset_fetch_response_partition(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchResponsePartition, int]:
    flex = version >= 6
    partition_index: int = 0
    committed_offset: int = 0
    if version <= 7:
        partition_index, committed_offset = _fmt_iq.unpack_from(buf, pos)
        pos += 12
    committed_leader_epoch: int = -1
    if version >= 5 and version <= 7:
        (committed_leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    metadata: str | None = ""
    if version <= 7:
        metadata, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    error_code: int = 0
    if version <= 7:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchResponsePartition(partition_index, committed_offset, committed_leader_epoch, metadata, error_code), pos


def _write_offset_fetch_response_partition(put: Put, m: OffsetFetchResponsePartition, version: int) -> None:
    flex = version >= 6
    if version <= 7:
        put(_fmt_iq.pack(m.partition_index, m.committed_offset))
    if version >= 5 and version <= 7:
        put(_fmt_i.pack(m.committed_leader_epoch))
    if version <= 7:
        put((compact_string if flex else string)(m.metadata))
    if version <= 7:
        put(_fmt_h.pack(m.error_code))
    if flex:
        put(b"\0")


class OffsetFetchResponseTopic(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


def _read_offset_fetch_response_topic(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchResponseTopic, int]:
    flex = version >= 6
    name: str = ""
    if version <= 7:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    partitions: list[OffsetFetchResponsePartition] = []
    if version <= 7:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        partitions = []
        for _ in range(_count):
            _partitions_item, pos = _read_offset_fetch_response_partition(buf, pos, version)
            partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchResponseTopic(name, partitions), pos


def _write_offset_fetch_response_topic(put: Put, m: OffsetFetchResponseTopic, version: int) -> None:
    flex = version >= 6
    if version <= 7:
        put((compact_string if flex else string)(m.name))
    if version <= 7:
        put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
        for item_partitions in m.partitions:
            _write_offset_fetch_response_partition(put, item_partitions, version)
    if flex:
        put(b"\0")


class OffsetFetchResponsePartitions(msgspec.Struct, gc=False):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


def _read_offset_fetch_response_partitions(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchResponsePartitions, int]:
    flex = version >= 6
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    if version >= 8:
        partition_index, committed_offset, committed_leader_epoch = _fmt_iqi.unpack_from(buf, pos)
        pos += 16
    metadata: str | None = ""
    if version >= 8:
        metadata, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    error_code: int = 0
    if version >= 8:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchResponsePartitions(partition_index, committed_offset, committed_leader_epoch, metadata, error_code), pos


def _write_offset_fetch_response_partitions(put: Put, m: OffsetFetchResponsePartitions, version: int) -> None:
    flex = version >= 6
    if version >= 8:
        put(_fmt_iqi.pack(m.partition_index, m.committed_offset, m.committed_leader_epoch))
    if version >= 8:
        put((compact_string if flex else string)(m.metadata))
    if version >= 8:
        put(_fmt_h.pack(m.error_code))
    if flex:
        put(b"\0")


class OffsetFetchResponseTopics(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = []


def _read_offset_fetch_response_topics(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchResponseTopics, int]:
    flex = version >= 6
    name: str = ""
    if version >= 8 and version <= 9:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 10:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    partitions: list[OffsetFetchResponsePartitions] = []
    if version >= 8:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        partitions = []
        for _ in range(_count):
            _partitions_item, pos = _read_offset_fetch_response_partitions(buf, pos, version)
            partitions.append(_partitions_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchResponseTopics(name, topic_id, partitions), pos


def _write_offset_fetch_response_topics(put: Put, m: OffsetFetchResponseTopics, version: int) -> None:
    flex = version >= 6
    if version >= 8 and version <= 9:
        put((compact_string if flex else string)(m.name))
    if version >= 10:
        put(_fmt_U_.pack(m.topic_id))
    if version >= 8:
        put(uvarint(len(m.partitions) + 1) if flex else length(len(m.partitions)))
        for item_partitions in m.partitions:
            _write_offset_fetch_response_partitions(put, item_partitions, version)
    if flex:
        put(b"\0")


class OffsetFetchResponseGroup(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = []
    error_code: int = 0


def _read_offset_fetch_response_group(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchResponseGroup, int]:
    flex = version >= 6
    group_id: str = ""
    if version >= 8:
        group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    topics: list[OffsetFetchResponseTopics] = []
    if version >= 8:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_offset_fetch_response_topics(buf, pos, version)
            topics.append(_topics_item)
    error_code: int = 0
    if version >= 8:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchResponseGroup(group_id, topics, error_code), pos


def _write_offset_fetch_response_group(put: Put, m: OffsetFetchResponseGroup, version: int) -> None:
    flex = version >= 6
    if version >= 8:
        put((compact_string if flex else string)(m.group_id))
    if version >= 8:
        put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
        for item_topics in m.topics:
            _write_offset_fetch_response_topics(put, item_topics, version)
    if version >= 8:
        put(_fmt_h.pack(m.error_code))
    if flex:
        put(b"\0")


class OffsetFetchResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = []
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = []


def _read_offset_fetch_response(buf: Buffer, pos: int, version: int) -> tuple[OffsetFetchResponse, int]:
    flex = version >= 6
    throttle_time_ms: int = 0
    if version >= 3:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    topics: list[OffsetFetchResponseTopic] = []
    if version <= 7:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_offset_fetch_response_topic(buf, pos, version)
            topics.append(_topics_item)
    error_code: int = 0
    if version >= 2 and version <= 7:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    groups: list[OffsetFetchResponseGroup] = []
    if version >= 8:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        groups = []
        for _ in range(_count):
            _groups_item, pos = _read_offset_fetch_response_group(buf, pos, version)
            groups.append(_groups_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OffsetFetchResponse(throttle_time_ms, topics, error_code, groups), pos


def _write_offset_fetch_response(put: Put, m: OffsetFetchResponse, version: int) -> None:
    flex = version >= 6
    if version >= 3:
        put(_fmt_i.pack(m.throttle_time_ms))
    if version <= 7:
        put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
        for item_topics in m.topics:
            _write_offset_fetch_response_topic(put, item_topics, version)
    if version >= 2 and version <= 7:
        put(_fmt_h.pack(m.error_code))
    if version >= 8:
        put(uvarint(len(m.groups) + 1) if flex else length(len(m.groups)))
        for item_groups in m.groups:
            _write_offset_fetch_response_group(put, item_groups, version)
    if flex:
        put(b"\0")


decode_request = _read_offset_fetch_request
encode_request = _write_offset_fetch_request
decode_response = _read_offset_fetch_response
encode_response = _write_offset_fetch_response
