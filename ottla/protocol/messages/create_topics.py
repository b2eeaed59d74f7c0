"""CreateTopics: generated from protocol/schemas/create_topics.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    length,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_nullable_string,
    read_string,
    read_tag,
    read_tag_count,
    skip_tags,
    string,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_B_bB_ = _Struct(">?b?")
_fmt_BBh = _Struct(">BBh")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_iB_ = _Struct(">i?")
_fmt_ih = _Struct(">ih")

API_KEY = 19

class CreatableReplicaAssignment(msgspec.Struct, gc=False):
    partition_index: int = 0
    broker_ids: list[int] = []


def _read_creatable_replica_assignment(buf: Buffer, pos: int, version: int) -> tuple[CreatableReplicaAssignment, int]:
    flex = version >= 5
    (partition_index,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    broker_ids: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatableReplicaAssignment(partition_index, broker_ids), pos


def _write_creatable_replica_assignment(put: Put, m: CreatableReplicaAssignment, version: int) -> None:
    flex = version >= 5
    put(_fmt_i.pack(m.partition_index))
    put(uvarint(len(m.broker_ids) + 1) if flex else length(len(m.broker_ids)))
    put(pack(f">{len(m.broker_ids)}i", *m.broker_ids))
    if flex:
        put(b"\0")


class CreatableTopicConfig(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = ""


def _read_creatable_topic_config(buf: Buffer, pos: int, version: int) -> tuple[CreatableTopicConfig, int]:
    flex = version >= 5
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    value, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatableTopicConfig(name, value), pos


def _write_creatable_topic_config(put: Put, m: CreatableTopicConfig, version: int) -> None:
    flex = version >= 5
    put((compact_string if flex else string)(m.name))
    put((compact_string if flex else string)(m.value))
    if flex:
        put(b"\0")


class CreatableTopic(msgspec.Struct, gc=False):
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


def _read_creatable_topic(buf: Buffer, pos: int, version: int) -> tuple[CreatableTopic, int]:
    flex = version >= 5
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    num_partitions, replication_factor = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    assignments: list[CreatableReplicaAssignment] = []
    for _ in range(_count):
        _assignments_item, pos = _read_creatable_replica_assignment(buf, pos, version)
        assignments.append(_assignments_item)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    configs: list[CreatableTopicConfig] = []
    for _ in range(_count):
        _configs_item, pos = _read_creatable_topic_config(buf, pos, version)
        configs.append(_configs_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatableTopic(name, num_partitions, replication_factor, assignments, configs), pos


def _write_creatable_topic(put: Put, m: CreatableTopic, version: int) -> None:
    flex = version >= 5
    put((compact_string if flex else string)(m.name))
    put(_fmt_ih.pack(m.num_partitions, m.replication_factor))
    put(uvarint(len(m.assignments) + 1) if flex else length(len(m.assignments)))
    for item_assignments in m.assignments:
        _write_creatable_replica_assignment(put, item_assignments, version)
    put(uvarint(len(m.configs) + 1) if flex else length(len(m.configs)))
    for item_configs in m.configs:
        _write_creatable_topic_config(put, item_configs, version)
    if flex:
        put(b"\0")


class CreateTopicsRequest(msgspec.Struct, gc=False):
    topics: list[CreatableTopic] = []
    timeout_ms: int = 60000
    validate_only: bool = False


def _read_create_topics_request(buf: Buffer, pos: int, version: int) -> tuple[CreateTopicsRequest, int]:
    flex = version >= 5
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[CreatableTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_creatable_topic(buf, pos, version)
        topics.append(_topics_item)
    timeout_ms, validate_only = _fmt_iB_.unpack_from(buf, pos)
    pos += 5
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreateTopicsRequest(topics, timeout_ms, validate_only), pos


def _write_create_topics_request(put: Put, m: CreateTopicsRequest, version: int) -> None:
    flex = version >= 5
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_creatable_topic(put, item_topics, version)
    put(_fmt_iB_.pack(m.timeout_ms, m.validate_only))
    if flex:
        put(b"\0")


class CreatableTopicConfigs(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


def _read_creatable_topic_configs(buf: Buffer, pos: int, version: int) -> tuple[CreatableTopicConfigs, int]:
    flex = version >= 5
    name: str = ""
    if version >= 5:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    value: str | None = ""
    if version >= 5:
        value, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    if version >= 5:
        read_only, config_source, is_sensitive = _fmt_B_bB_.unpack_from(buf, pos)
        pos += 3
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatableTopicConfigs(name, value, read_only, config_source, is_sensitive), pos


def _write_creatable_topic_configs(put: Put, m: CreatableTopicConfigs, version: int) -> None:
    flex = version >= 5
    if version >= 5:
        put((compact_string if flex else string)(m.name))
    if version >= 5:
        put((compact_string if flex else string)(m.value))
    if version >= 5:
        put(_fmt_B_bB_.pack(m.read_only, m.config_source, m.is_sensitive))
    if flex:
        put(b"\0")


class CreatableTopicResult(msgspec.Struct, gc=False):
    name: str = ""
    topic_id: bytes = NO_UUID
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = []


def _read_creatable_topic_result(buf: Buffer, pos: int, version: int) -> tuple[CreatableTopicResult, int]:
    flex = version >= 5
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 7:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    num_partitions: int = -1
    replication_factor: int = -1
    if version >= 5:
        num_partitions, replication_factor = _fmt_ih.unpack_from(buf, pos)
        pos += 6
    configs: list[CreatableTopicConfigs] | None = []
    if version >= 5:
        _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
        configs = None
        if _count >= 0:
            configs = []
            for _ in range(_count):
                _configs_item, pos = _read_creatable_topic_configs(buf, pos, version)
                configs.append(_configs_item)
    topic_config_error_code: int = 0
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                (topic_config_error_code,) = _fmt_h.unpack_from(buf, pos)
                pos += 2
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return CreatableTopicResult(name, topic_id, error_code, error_message, topic_config_error_code, num_partitions, replication_factor, configs), pos


def _write_creatable_topic_result(put: Put, m: CreatableTopicResult, version: int) -> None:
    flex = version >= 5
    put((compact_string if flex else string)(m.name))
    if version >= 7:
        put(_fmt_U_.pack(m.topic_id))
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    if version >= 5:
        put(_fmt_ih.pack(m.num_partitions, m.replication_factor))
    if version >= 5:
        if m.configs is None:
            put(b"\0" if flex else b"\xff\xff\xff\xff")
        else:
            put(uvarint(len(m.configs) + 1) if flex else length(len(m.configs)))
            for item_configs in m.configs:
                _write_creatable_topic_configs(put, item_configs, version)
    if flex:
        _tags: list[Buffer] = []
        if m.topic_config_error_code != 0:
            _tags.append(_fmt_BBh.pack(0, 2, m.topic_config_error_code))
        put_tags(put, _tags)


class CreateTopicsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = []


def _read_create_topics_response(buf: Buffer, pos: int, version: int) -> tuple[CreateTopicsResponse, int]:
    flex = version >= 5
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    topics: list[CreatableTopicResult] = []
    for _ in range(_count):
        _topics_item, pos = _read_creatable_topic_result(buf, pos, version)
        topics.append(_topics_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreateTopicsResponse(throttle_time_ms, topics), pos


def _write_create_topics_response(put: Put, m: CreateTopicsResponse, version: int) -> None:
    flex = version >= 5
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
    for item_topics in m.topics:
        _write_creatable_topic_result(put, item_topics, version)
    if flex:
        put(b"\0")


decode_request = _read_create_topics_request
encode_request = _write_create_topics_request
decode_response = _read_create_topics_response
encode_response = _write_create_topics_response
