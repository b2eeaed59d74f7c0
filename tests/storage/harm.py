"""Kinds of damage that tests apply to a batch in the middle of a closed segment."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from ottla.protocol.records import BatchHeader, batches

_LENGTH = Struct(">i")
_OFFSET = Struct(">q")
_LENGTH_AT, _MAGIC_AT = 8, 16


def _with(raw: bytes, at: int, data: bytes) -> bytes:
    return raw[:at] + data + raw[at + len(data) :]


Harm = Callable[[bytes, int, BatchHeader], bytes]
"""A function that damages one batch of a segment. Its arguments are the segment's bytes and the batch's position and header.

Returns the damaged bytes of the segment.
"""

HARMS: dict[str, Harm] = {
    "length 0": lambda raw, at, _: _with(raw, at + _LENGTH_AT, _LENGTH.pack(0)),
    "negative length": lambda raw, at, _: _with(raw, at + _LENGTH_AT, _LENGTH.pack(-5)),
    "huge length": lambda raw, at, _: _with(raw, at + _LENGTH_AT, _LENGTH.pack(1 << 30)),
    "length too large": lambda raw, at, header: _with(raw, at + _LENGTH_AT, _LENGTH.pack(header.batch_length + 7)),
    "zeros": lambda raw, at, header: _with(raw, at, bytes(2 * header.size_bytes)),
    "wrong magic": lambda raw, at, _: _with(raw, at + _MAGIC_AT, b"\x05"),
    "old magic": lambda raw, at, _: _with(raw, at + _MAGIC_AT, b"\x01"),
    "wrong CRC": lambda raw, at, header: _with(raw, at + header.size_bytes - 3, bytes([raw[at + header.size_bytes - 3] ^ 1])),
    "offset goes backwards": lambda raw, at, header: _with(raw, at, _OFFSET.pack(header.base_offset - 2)),
    "offset beyond the segment": lambda raw, at, header: _with(raw, at, _OFFSET.pack(header.base_offset + 1_000_000)),
}
"""Kinds of damage that keep the file's size, so that the segment's indexes still match the file."""
CUTS: dict[str, Harm] = {
    "cut inside a batch": lambda raw, at, _: raw[: at + 30],
    "cut between two batches": lambda raw, at, _: raw[:at],
    "emptied": lambda raw, at, _: b"",
}


def harmed(raw: bytes, kind: str, number: int) -> tuple[bytes, int, BatchHeader]:
    """Damage the batch ``number`` of a segment. Returns the segment's bytes and the batch's position and original header."""
    at, header = list(batches(raw))[number]
    return (HARMS | CUTS)[kind](raw, at, header), at, header
