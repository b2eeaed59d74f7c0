"""Confluent's wire format: a zero byte, the schema's id in four bytes, and the encoded value.

For Protobuf, the indexes of the value's message type in the schema follow the id: their count and the indexes, as zigzag varints. A
single zero stands for the schema's first message, the usual case.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAGIC: Final = b"\0"
HEAD_BYTES: Final = 5
FIRST_MESSAGE: Final = b"\0"
"""The indexes of the first message of a Protobuf schema."""
MAX_INDEXES: Final = 50
"""Maximum number of indexes: the nesting depth of a message type in its schema."""
_MAX_VARINT_BYTES: Final = 5


class Framed(msgspec.Struct, frozen=True):
    """The parts of a value in the wire format."""

    schema_id: int
    payload: bytes


def framed(schema_id: int, payload: bytes) -> bytes:
    """Prepend the header with a schema's id to a payload."""
    return MAGIC + schema_id.to_bytes(HEAD_BYTES - 1, "big") + payload


def unframed(data: bytes | None) -> Framed | None:
    """Split a value into schema id and payload; None if it does not have the header."""
    if data is None or len(data) < HEAD_BYTES or data[:1] != MAGIC:
        return None
    return Framed(int.from_bytes(data[1:HEAD_BYTES], "big"), data[HEAD_BYTES:])


def message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Return the indexes before a Protobuf value, and the value. Raises ValueError for malformed indexes."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= MAX_INDEXES:
        raise ValueError(f"{count} message indexes; at most {MAX_INDEXES} are allowed")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return indexes or [0], payload[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(_MAX_VARINT_BYTES):
        if at + i >= len(data):
            break
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + i + 1
    raise ValueError("not a varint")
