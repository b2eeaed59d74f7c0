"""Decompresses the members of a gzip payload, as Java does (GZIPInputStream).

Apache Kafka's broker and its Java consumers read all members. Bytes after a member are ignored if they do not begin with a header,
or are the last bytes in the reader's buffer and too few for a member. A damaged member is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from struct import Struct

_RAW_DEFLATE = -15
_MAGIC_AND_METHOD = b"\x1f\x8b\x08"
_FIXED_BYTES = 10
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
_SHORT = Struct("<H")
_TRAILER = Struct("<II")
_BUFFER_BYTES = 8192
"""Size in bytes of the buffer with which Kafka creates Java's reader (GzipCompression)."""
_LEAST_AFTER_MEMBER = 26
"""If at most this many bytes follow a member's compressed data in Java's buffer, no member follows: 8 bytes are the trailer, and
the other 18 are too few for a member."""
_TEXT_BYTES = 256
"""Number of bytes of a file name or comment that are searched at a time."""


def inflated(payload: memoryview, input_bytes: int, piece_bytes: int) -> Iterator[bytes]:
    """The decompressed members in pieces of at most ``piece_bytes``, read from parts of ``input_bytes``.

    Raises ValueError and zlib.error for a damaged member.
    """
    at = filled = _header_end(payload, 0)
    while True:
        end = yield from _member(payload, at, input_bytes, piece_bytes)
        if filled < end:
            filled = min(filled + -(-(end - filled) // _BUFFER_BYTES) * _BUFFER_BYTES, len(payload))
        is_all_in_buffer = len(payload) <= max(filled, end + _TRAILER.size)
        if is_all_in_buffer and filled - end <= _LEAST_AFTER_MEMBER:
            return
        try:
            at = _header_end(payload, end + _TRAILER.size)
        except ValueError:
            return
        filled = max(filled, at)


def _member(payload: memoryview, at: int, input_bytes: int, piece_bytes: int) -> Generator[bytes, None, int]:
    """Decompress one member from the end of its header; returns the end of its compressed data, where the trailer begins."""
    stream = zlib.decompressobj(wbits=_RAW_DEFLATE)
    rest: memoryview | bytes = b""
    checksum = size = 0
    while not stream.eof:
        if not rest:
            rest = payload[at : at + input_bytes]
            at += len(rest)
        piece = stream.decompress(rest, piece_bytes)
        if not (rest or piece):
            raise ValueError("the gzip stream is incomplete")
        rest = stream.unconsumed_tail
        checksum, size = zlib.crc32(piece, checksum), size + len(piece)
        yield piece
    end = at - len(stream.unused_data)
    if end + _TRAILER.size > len(payload):
        raise ValueError("the gzip stream is incomplete")
    if _TRAILER.unpack_from(payload, end) != (checksum, size & 0xFFFFFFFF):
        raise ValueError("the trailer of a gzip member does not match its content")
    return end


def _header_end(payload: memoryview, at: int) -> int:
    """The position after the header of a member. Raises ValueError. As in Java, unknown flags are ignored."""
    if bytes(payload[at : at + 3]) != _MAGIC_AND_METHOD or at + _FIXED_BYTES > len(payload):
        raise ValueError("the gzip header is missing")
    flags, end = payload[at + 3], at + _FIXED_BYTES
    if flags & _FEXTRA:
        end += 2 + _short(payload, end)
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            end = _text_end(payload, end)
    if flags & _FHCRC:
        if _short(payload, end) != zlib.crc32(payload[at:end]) & 0xFFFF:
            raise ValueError("a gzip header has a wrong checksum")
        end += 2
    if end > len(payload):
        raise ValueError("a gzip header is incomplete")
    return end


def _short(payload: memoryview, at: int) -> int:
    if at + 2 > len(payload):
        raise ValueError("a gzip header is incomplete")
    number: int = _SHORT.unpack_from(payload, at)[0]
    return number


def _text_end(payload: memoryview, at: int) -> int:
    while at < len(payload):
        found = bytes(payload[at : at + _TEXT_BYTES]).find(0)
        if found >= 0:
            return at + found + 1
        at += _TEXT_BYTES
    raise ValueError("a gzip header is incomplete")
