"""Readers and writers for the primitive types of Kafka's wire protocol.

A reader takes a buffer and a position, and returns the value and the next position. No reader allocates memory according to a
declared length: a wrong length only yields a slice that is too short. Generated code calls these functions; `protocol.codec` turns
the exceptions that they raise into `DecodeError`.

Nearly every size, count and tag takes one byte. Functions that run many times per request read this byte inline, because a call
takes longer than the rest of their work.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from struct import Struct
from typing import TypeAlias

from ottla.protocol.errors import DecodeError

Buffer: TypeAlias = bytes | bytearray | memoryview
Put: TypeAlias = Callable[[bytes | bytearray | memoryview], None]

NO_UUID = bytes(16)
MAX_TAGGED_FIELDS = 128
"""Maximum number of tagged fields in one section. Kafka has no such limit, so a client can make a broker read millions of tagged
fields (CVE-2026-111115)."""
MAX_ELEMENTS = 250_000
"""Maximum number of elements in all arrays of one message. An element takes about a hundred bytes of memory, but as little as one
byte in the request (CVE-2026-111108)."""

MAX_STRING_BYTES = 0x7FFF
"""Maximum size of a string in bytes, in every version. A longer compact string could not be sent in an older version."""

_H = Struct(">h")
_I = Struct(">i")
_unpack_h = _H.unpack_from
_unpack_i = _I.unpack_from
_pack_h = _H.pack
_pack_i = _I.pack


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes."""
    value = buf[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise DecodeError("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise DecodeError("a varint is larger than 32 bits")
    return value, pos


def _repaired(raw: Buffer) -> str:
    """Decode bytes that are not valid UTF-8, with U+FFFD for invalid bytes, as Java does.

    Stock clients send such bytes: librdkafka copies an offset's metadata without its final zero, and confluent-kafka reads past its
    end. Raises DecodeError if the text would be too long for a response, because each U+FFFD takes three bytes.
    """
    text = str(raw, "utf-8", "replace")
    if len(text.encode()) > MAX_STRING_BYTES:
        raise DecodeError("a string is not UTF-8, and too long after its invalid bytes are replaced")
    return text


def read_string(buf: Buffer, pos: int) -> tuple[str, int]:
    value, pos = read_nullable_string(buf, pos)
    if value is None:
        raise DecodeError("a string that must not be null is null")
    return value, pos


def read_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    (size,) = _unpack_h(buf, pos)
    pos += 2
    if size < 0:
        if size != -1:
            raise DecodeError(f"invalid string length {size}")
        return None, pos
    end = pos + size
    try:
        return str(buf[pos:end], "utf-8"), end
    except UnicodeDecodeError:
        return _repaired(buf[pos:end]), end


def read_compact_string(buf: Buffer, pos: int) -> tuple[str, int]:
    size = buf[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = read_uvarint(buf, pos)
    if size == 0:
        raise DecodeError("a string that must not be null is null")
    if size > MAX_STRING_BYTES + 1:
        raise DecodeError(f"invalid string length {size - 1}")
    end = pos + size - 1
    try:
        return str(buf[pos:end], "utf-8"), end
    except UnicodeDecodeError:
        return _repaired(buf[pos:end]), end


def read_compact_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    size = buf[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = read_uvarint(buf, pos)
    if size == 0:
        return None, pos
    if size > MAX_STRING_BYTES + 1:
        raise DecodeError(f"invalid string length {size - 1}")
    end = pos + size - 1
    try:
        return str(buf[pos:end], "utf-8"), end
    except UnicodeDecodeError:
        return _repaired(buf[pos:end]), end


def _slice(buf: Buffer, pos: int, size: int) -> tuple[Buffer, int]:
    end = pos + size
    if end > len(buf):
        raise DecodeError(f"a field has the length {size}, but only {len(buf) - pos} bytes are left")
    return buf[pos:end], end


def read_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    value, pos = read_nullable_bytes(buf, pos)
    if value is None:
        raise DecodeError("a byte array that must not be null is null")
    return value, pos


def read_nullable_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    value, pos = read_records(buf, pos)
    return (None if value is None else bytes(value)), pos


def read_compact_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    value, pos = read_compact_nullable_bytes(buf, pos)
    if value is None:
        raise DecodeError("a byte array that must not be null is null")
    return value, pos


def read_compact_nullable_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    value, pos = read_compact_records(buf, pos)
    return (None if value is None else bytes(value)), pos


def read_records(buf: Buffer, pos: int) -> tuple[Buffer | None, int]:
    """Return record data as a slice of the buffer, and the position after the data.

    If the buffer is a memoryview, code that stores the slice must copy it.
    """
    (size,) = _unpack_i(buf, pos)
    pos += 4
    if size < 0:
        if size != -1:
            raise DecodeError(f"invalid byte array length {size}")
        return None, pos
    return _slice(buf, pos, size)


def read_compact_records(buf: Buffer, pos: int) -> tuple[Buffer | None, int]:
    size, pos = read_uvarint(buf, pos)
    if size == 0:
        return None, pos
    return _slice(buf, pos, size - 1)


class TooManyElements(DecodeError):
    """The arrays of a message have more elements than allowed."""


class _Count:
    """The number of array elements in the message that is being decoded, and the limit."""

    __slots__ = ("elements", "limit")

    def __init__(self) -> None:
        self.elements = 0
        self.limit = MAX_ELEMENTS


_message: ContextVar[_Count] = ContextVar("message")
"""The count of each thread. Decoding never pauses, so a thread decodes one message at a time.

Other threads get a count with their first message. The callbacks of an event loop run in copies of the context of its thread, so
they share one count.
"""
_message.set(_Count())


def begin_message(max_elements: int = MAX_ELEMENTS) -> None:
    """Reset the count of elements for the next message of this thread, which may have ``max_elements``."""
    try:
        count = _message.get()
    except LookupError:
        count = _Count()
        _message.set(count)
    count.elements = 0
    count.limit = max_elements


def message_elements() -> int:
    """The number of elements in all arrays of the message that this thread has decoded last."""
    return _message.get().elements


def _checked(count: int, buf: Buffer, pos: int) -> int:
    """Check an array's element count. Raises `DecodeError`, and `TooManyElements` if the message's arrays exceed the limit.

    An element takes at least a byte in the buffer, so an array of more elements than bytes is rejected. A decoded element takes far
    more memory than a byte, so the number of elements of the whole message is limited as well.
    """
    if count > len(buf) - pos:
        raise DecodeError(f"an array has {count} elements, but only {len(buf) - pos} bytes are left")
    if count <= 0:
        return count
    message = _message.get()
    message.elements += count
    if message.elements > message.limit:
        raise TooManyElements(f"the arrays of a message have more than {message.limit} elements")
    return count


def read_nullable_length(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the element count of an array (-1 for a null array), and the position after the count."""
    (count,) = _unpack_i(buf, pos)
    pos += 4
    if count < -1:
        raise DecodeError(f"invalid array length {count}")
    return _checked(count, buf, pos), pos


def read_length(buf: Buffer, pos: int) -> tuple[int, int]:
    count, pos = read_nullable_length(buf, pos)
    if count < 0:
        raise DecodeError("an array that must not be null is null")
    return count, pos


def read_compact_nullable_length(buf: Buffer, pos: int) -> tuple[int, int]:
    count = buf[pos]
    if count < 0x80:
        pos += 1
    else:
        count, pos = read_uvarint(buf, pos)
    return _checked(count - 1, buf, pos), pos


def read_compact_length(buf: Buffer, pos: int) -> tuple[int, int]:
    count, pos = read_compact_nullable_length(buf, pos)
    if count < 0:
        raise DecodeError("an array that must not be null is null")
    return count, pos


def read_tag_count(buf: Buffer, pos: int) -> tuple[int, int]:
    count = buf[pos]
    if count < 0x80:
        pos += 1
    else:
        count, pos = read_uvarint(buf, pos)
    if count > MAX_TAGGED_FIELDS:
        raise DecodeError(f"a section has {count} tagged fields; at most {MAX_TAGGED_FIELDS} are allowed")
    return count, pos


def read_tag(buf: Buffer, pos: int) -> tuple[int, int, int]:
    """Return the tag of a tagged field, the position of the field's value, and the position after the value."""
    tag = buf[pos]
    if tag < 0x80:
        pos += 1
    else:
        tag, pos = read_uvarint(buf, pos)
    size = buf[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = read_uvarint(buf, pos)
    if size > len(buf) - pos:
        raise DecodeError("a tagged field extends beyond the end of the message")
    return tag, pos, pos + size


def skip_tags(buf: Buffer, pos: int) -> int:
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        _, _, pos = read_tag(buf, pos)
    return pos


_ONE_BYTE = [bytes((i,)) for i in range(128)]


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    return _pack_h(len(raw)) + raw


def compact_string(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    raw = value.encode()
    size = len(raw) + 1
    return (_ONE_BYTE[size] if size < 0x80 else uvarint(size)) + raw


def bytes_length(value: Buffer | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else _pack_i(len(value))


def compact_bytes_length(value: Buffer | None) -> bytes:
    return b"\0" if value is None else uvarint(len(value) + 1)


def length(count: int) -> bytes:
    return _pack_i(count)


def tagged_field(tag: int, parts: list[Buffer]) -> bytes:
    """A tagged field: its tag, the size of its value, and the value."""
    size = sum(map(len, parts))
    return b"".join((_ONE_BYTE[tag] if tag < 0x80 else uvarint(tag), _ONE_BYTE[size] if size < 0x80 else uvarint(size), *parts))


def put_tags(put: Put, tags: list[Buffer]) -> None:
    """Write a section of tagged fields, each with its tag and size."""
    put(_ONE_BYTE[len(tags)])
    for tag in tags:
        put(tag)
