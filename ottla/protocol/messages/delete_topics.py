"""DeleteTopics: generated from protocol/schemas/delete_topics.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 20

class DeleteTopicState(msgspec.Struct, gc=False):
    name: str | None = None
    topic_id: bytes = NO_UUID


def _read_delete_topic_state(buf: Buffer, pos: int, version: int) -> tuple[DeleteTopicState, int]:
    flex = version >= 4
    name: str | None = None
    if version >= 6:
        name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 6:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteTopicState(name, topic_id), pos


def _write_delete_topic_state(put: Put, m: DeleteTopicState, version: int) -> None:
    flex = version >= 4
    if version >= 6:
        put((compact_string if flex else string)(m.name))
    if version >= 6:
        put(_fmt_U_.pack(m.topic_id))
    if flex:
        put(b"\0")


class DeleteTopicsRequest(msgspec.Struct, gc=False):
    topics: list[DeleteTopicState] = []
    topic_names: list[str] = []
    timeout_ms: int = 0


def _read_delete_topics_request(buf: Buffer, pos: int, version: int) -> tuple[DeleteTopicsRequest, int]:
    flex = version >= 4
    topics: list[DeleteTopicState] = []
    if version >= 6:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        topics = []
        for _ in range(_count):
            _topics_item, pos = _read_delete_topic_state(buf, pos, version)
            topics.append(_topics_item)
    topic_names: list[str] = []
    if version <= 5:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        topic_names = []
        for _ in range(_count):
            _topic_names_item, pos = (read_compact_string if flex else read_string)(buf, pos)
            topic_names.append(_topic_names_item)
    (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteTopicsRequest(topics, topic_names, timeout_ms), pos


def _write_delete_topics_request(put: Put, m: DeleteTopicsRequest, version: int) -> None:
    flex = version >= 4
    if version >= 6:
        put(uvarint(len(m.topics) + 1) if flex else length(len(m.topics)))
        for item_topics in m.topics:
            _write_delete_topic_state(put, item_topics, version)
    if version <= 5:
        put(uvarint(len(m.topic_names) + 1) if flex else length(len(m.topic_names)))
        for item_topic_names in m.topic_names:
            put((compact_string if flex else string)(item_topic_names))
    put(_fmt_i.pack(m.timeout_ms))
    if flex:
        put(b"\0")


class DeletableTopicResult(msgspec.Struct, gc=False):
    name: str | None = ""
    topic_id: bytes = NO_UUID
    error_code: int = 0
    error_message: str | None = None


def _read_deletable_topic_result(buf: Buffer, pos: int, version: int) -> tuple[DeletableTopicResult, int]:
    flex = version >= 4
    name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    topic_id: bytes = NO_UUID
    if version >= 6:
        (topic_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message: str | None = None
    if version >= 5:
        error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeletableTopicResult(name, topic_id, error_code, error_message), pos


def _write_deletable_topic_result(put: Put, m: DeletableTopicResult, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.name))
    if version >= 6:
        put(_fmt_U_.pack(m.topic_id))
    put(_fmt_h.pack(m.error_code))
    if version >= 5:
        put((compact_string if flex else string)(m.error_message))
    if flex:
        put(b"\0")


class DeleteTopicsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = []


def _read_delete_topics_response(buf: Buffer, pos: int, version: int) -> tuple[DeleteTopicsResponse, int]:
    flex = version >= 4
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    responses: list[DeletableTopicResult] = []
    for _ in range(_count):
        _responses_item, pos = _read_deletable_topic_result(buf, pos, version)
        responses.append(_responses_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteTopicsResponse(throttle_time_ms, responses), pos


def _write_delete_topics_response(put: Put, m: DeleteTopicsResponse, version: int) -> None:
    flex = version >= 4
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.responses) + 1) if flex else length(len(m.responses)))
    for item_responses in m.responses:
        _write_deletable_topic_result(put, item_responses, version)
    if flex:
        put(b"\0")


decode_request = _read_delete_topics_request
encode_request = _write_delete_topics_request
decode_response = _read_delete_topics_response
encode_response = _write_delete_topics_response
