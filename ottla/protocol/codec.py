"""Encodes and decodes whole frames of requests and responses, with their headers, and records of coordinators."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from struct import Struct
from struct import error as StructError
from typing import Any

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import APIS
from ottla.protocol.primitives import (
    MAX_ELEMENTS,
    Buffer,
    Put,
    TooManyElements,
    begin_message,
    read_nullable_string,
    skip_tags,
)

API_VERSIONS_KEY = 18

_HEADER = Struct(">hhi")
_CORRELATION = Struct(">i")
_SIZE = Struct(">i")

DECODE_FAILURES = (DecodeError, StructError, IndexError, ValueError, OverflowError)


class Api(msgspec.Struct, frozen=True):
    """The codecs of one API. ``max_version`` is the last stable version. Unstable versions can be decoded, but are not offered."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    decode_request: Callable[[Buffer, int, int], tuple[Any, int]]
    encode_request: Callable[[Put, Any, int], None]
    decode_response: Callable[[Buffer, int, int], tuple[Any, int]]
    encode_response: Callable[[Put, Any, int], None]


@cache
def api(key: int) -> Api:
    """The codecs of an API. Imports the API's generated module at first use. Raises KeyError for an unknown key."""
    entry = APIS[key]
    module = import_module(f"ottla.protocol.messages.{entry.module}")
    return Api(
        key,
        entry.name,
        entry.min_version,
        entry.max_version,
        entry.flexible_from,
        module.decode_request,
        module.encode_request,
        module.decode_response,
        module.encode_response,
    )


def read_client_id(buf: Buffer, *, flexible: bool) -> tuple[str | None, int]:
    """Return the client id in a request header, and the position of the body.

    The client id is not compact, even in a flexible header. Raises `DecodeError`, and may raise any of `DECODE_FAILURES`.
    """
    client_id, pos = read_nullable_string(buf, 8)
    if flexible:
        pos = skip_tags(buf, pos) if buf[pos] else pos + 1
    if pos > len(buf):
        raise DecodeError("the header is incomplete")
    return client_id, pos


def decode_body(
    decode: Callable[[Buffer, int, int], tuple[Any, int]],
    buf: Buffer,
    pos: int,
    version: int,
    *,
    may_trail: bool = False,
    max_elements: int = MAX_ELEMENTS,
) -> Any:
    """Decode a message that fills the rest of ``buf``. With ``may_trail`` further bytes may follow the message.

    Raises `DecodeError`, and `TooManyElements` if all arrays of the message together have more than ``max_elements``.

    Requests are decoded with ``may_trail``, as in Kafka: librdkafka 2.16 ends a Metadata request for all topics with three bytes
    too many.
    """
    begin_message(max_elements)
    try:
        message, pos = decode(buf, pos, version)
    except TooManyElements:
        raise
    except DECODE_FAILURES as error:
        raise DecodeError(str(error)) from error
    if pos > len(buf) or (pos < len(buf) and not may_trail):
        raise DecodeError(f"the body ends at byte {pos} of {len(buf)}")
    return message


def response_parts(codec: Api, version: int, correlation_id: int, message: Any) -> list[Buffer]:
    """A response frame in pieces, with the frame's size first. Record data is not copied."""
    parts: list[Buffer] = [b"", _CORRELATION.pack(correlation_id)]
    if version >= codec.flexible_from and codec.key != API_VERSIONS_KEY:
        parts.append(b"\0")
    codec.encode_response(parts.append, message, version)
    parts[0] = _SIZE.pack(sum(map(len, parts)))
    return parts


def counted_bytes(codec: Api, version: int, message: Any) -> int:
    """The bytes of a response that Kafka counts for quotas: its body, and four bytes for the frame's size."""
    parts: list[Buffer] = []
    codec.encode_response(parts.append, message, version)
    return _SIZE.size + sum(map(len, parts))


def request_frame(key: int, version: int, correlation_id: int, client_id: str | None, message: Any) -> bytes:
    """A whole request frame, for clients and tests."""
    codec = api(key)
    raw = None if client_id is None else client_id.encode()
    parts: list[Buffer] = [_HEADER.pack(key, version, correlation_id)]
    parts.append(b"\xff\xff" if raw is None else len(raw).to_bytes(2, "big") + raw)
    if version >= codec.flexible_from:
        parts.append(b"\0")
    codec.encode_request(parts.append, message, version)
    return _SIZE.pack(sum(map(len, parts))) + b"".join(parts)


def decode_response_frame(key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """Return the correlation id and message of a response frame. ``frame`` begins after the frame's size."""
    codec = api(key)
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    pos = 4
    if version >= codec.flexible_from and key != API_VERSIONS_KEY:
        pos = skip_tags(frame, pos)
    return correlation_id, decode_body(codec.decode_response, frame, pos, version)


def encode_record(module: Any, message: Any, version: int) -> bytes:
    """Encode a key or value of a coordinator's record: its version as int16, then the message."""
    parts: list[Buffer] = [version.to_bytes(2, "big")]
    module.encode(parts.append, message, version)
    return b"".join(parts)


def decode_record(module: Any, raw: Buffer, pos: int = 2) -> Any:
    """Decode a key or value that `encode_record` encoded. Raises `DecodeError` for an unknown version."""
    version = int.from_bytes(raw[:2], "big", signed=True)
    if not module.MIN_VERSION <= version <= module.MAX_VERSION:
        raise DecodeError(f"unsupported record version {version}")
    return decode_body(module.decode, raw, pos, version)
