"""DeleteShareGroupOffsets: generated from protocol/schemas/delete_share_group_offsets.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_h = _Struct(">16sh")
_fmt_ih = _Struct(">ih")

API_KEY = 92

class DeleteShareGroupOffsetsRequestTopic(msgspec.Struct, gc=False):
    topic_name: str = ""


def _read_delete_share_group_offsets_request_topic(buf: Buffer, pos: int, version: int) -> tuple[DeleteShareGroupOffsetsRequestTopic, int]:
    topic_name, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteShareGroupOffsetsRequestTopic(topic_name), pos


def _write_delete_share_group_offsets_request_topic(put: Put, m: DeleteShareGroupOffsetsRequestTopic, version: int) -> None:
    put(compact_string(m.topic_name))
    put(b"\0")


class DeleteShareGroupOffsetsRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []


def _read_delete_share_group_offsets_request(buf: Buffer, pos: int, version: int) -> tuple[DeleteShareGroupOffsetsRequest, int]:
    group_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_delete_share_group_offsets_request_topic(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteShareGroupOffsetsRequest(group_id, topics), pos


def _write_delete_share_group_offsets_request(put: Put, m: DeleteShareGroupOffsetsRequest, version: int) -> None:
    put(compact_string(m.group_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_delete_share_group_offsets_request_topic(put, item_topics, version)
    put(b"\0")


class DeleteShareGroupOffsetsResponseTopic(msgspec.Struct, gc=False):
    topic_name: str = ""
    topic_id: bytes = NO_UUID
    error_code: int = 0
    error_message: str | None = None


def _read_delete_share_group_offsets_response_topic(buf: Buffer, pos: int, version: int) -> tuple[DeleteShareGroupOffsetsResponseTopic, int]:
    topic_name, pos = read_compact_string(buf, pos)
    topic_id, error_code = _fmt_U_h.unpack_from(buf, pos)
    pos += 18
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteShareGroupOffsetsResponseTopic(topic_name, topic_id, error_code, error_message), pos


def _write_delete_share_group_offsets_response_topic(put: Put, m: DeleteShareGroupOffsetsResponseTopic, version: int) -> None:
    put(compact_string(m.topic_name))
    put(_fmt_U_h.pack(m.topic_id, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class DeleteShareGroupOffsetsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []


def _read_delete_share_group_offsets_response(buf: Buffer, pos: int, version: int) -> tuple[DeleteShareGroupOffsetsResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
    for _ in range(_count):
        _responses_item, pos = _read_delete_share_group_offsets_response_topic(buf, pos, version)
        responses.append(_responses_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DeleteShareGroupOffsetsResponse(throttle_time_ms, error_code, error_message, responses), pos


def _write_delete_share_group_offsets_response(put: Put, m: DeleteShareGroupOffsetsResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.responses) + 1))
    for item_responses in m.responses:
        _write_delete_share_group_offsets_response_topic(put, item_responses, version)
    put(b"\0")


decode_request = _read_delete_share_group_offsets_request
encode_request = _write_delete_share_group_offsets_request
decode_response = _read_delete_share_group_offsets_response
encode_response = _write_delete_share_group_offsets_response
