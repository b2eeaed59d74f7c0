"""Decompresses the payload of a record batch piece by piece, with bounded time and memory for each piece.

C code that releases the GIL decompresses each piece, so a worker thread may run it.

Accepts the same payloads as the Java readers of Apache Kafka's broker and consumers: several zstd frames, several gzip members
(`gzip_members`), several xerial streams, but only one lz4 frame (`lz4_frames`). Bytes after the end of gzip and lz4 data are
ignored.

Compression libraries are imported at first use, because the imports would slow down every start.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any

import cramjam

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import GZIP, LZ4, SNAPPY

PIECE_BYTES = 1 << 16
"""Maximum size in bytes of a piece of decompressed data."""
INPUT_BYTES = 1 << 14
"""Maximum number of compressed bytes that a decompressor gets in one call."""
SNAPPY_MAX_RATIO = 22
"""Maximum ratio of decompressed to compressed bytes: in snappy three bytes decompress to at most 64. A header that declares a
higher ratio is damaged."""
SNAPPY_BLOCK_BYTES = 64 << 20
"""Maximum size in bytes of a decompressed snappy block. Snappy has no streaming mode, so each block is decompressed as a whole."""
ZSTD_MAX_WINDOW_LOG = 27
"""Base-2 logarithm of the largest zstd window in bytes. Stock clients reject frames that need more than 128 MiB, too."""
ZSTD_FRAMES = 64
"""Number of frames that are examined to find the largest window. Later frames are assumed to need the largest window allowed."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_LEAST_BYTES = 6
_STATE_BYTES = 1 << 20
"""Estimated memory in bytes of a decompressor without a declared window, including the pieces that were read ahead."""
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_MAGIC_NUMBER = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
"""The first four bytes of xerial's header, read as the size of a block."""
_XERIAL_HEADER_BYTES = 16
_XERIAL_LEAST_VERSION = 1
"""The lowest allowed version in a xerial header after the first header."""
_BLOCK = Struct(">i")


class TooLarge(KafkaError):
    """The payload decompresses to more bytes than are allowed (MESSAGE_TOO_LARGE)."""

    def __init__(self, reason: str = "the batch inflates to more than is allowed") -> None:
        super().__init__(Code.MESSAGE_TOO_LARGE, reason)


class Allowance:
    """Counts how many bytes may still be decompressed, usually for one request."""

    __slots__ = ("left_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.left_bytes = limit_bytes

    def take(self, size: int) -> None:
        """Count ``size`` decompressed bytes. Raises `TooLarge` if they exceed the limit."""
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise TooLarge


def pieces(payload: memoryview, compression: int) -> Iterator[memoryview | bytes]:
    """Yield the decompressed payload in pieces. An empty piece only means that the decompressor needs more input.

    Raises `TooLarge`, and CORRUPT_MESSAGE if the payload does not have the given compression.
    """
    try:
        if compression == GZIP:
            from ottla.protocol import gzip_members

            yield from gzip_members.inflated(payload, INPUT_BYTES, PIECE_BYTES)
        elif compression == SNAPPY:
            yield from _snappy(payload)
        elif compression == LZ4:
            from lz4.frame import LZ4FrameDecompressor

            yield from _lz4(LZ4FrameDecompressor(), payload)
        elif compression:
            from ottla.protocol.zstd import zstd

            try:
                yield from _zstd(payload)
            except zstd.ZstdError as error:
                raise ValueError(str(error)) from error
        else:
            yield from _parts(payload, PIECE_BYTES)
    except (cramjam.DecompressionError, zlib.error, RuntimeError, EOFError, ValueError) as error:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"the batch cannot be decompressed: {error}") from error


def memory_bytes(payload: memoryview, compression: int) -> int:
    """Memory in bytes that decompressing may need: for zstd the window declared in the frame's header, for snappy a block."""
    if compression == SNAPPY:
        return min(SNAPPY_MAX_RATIO * len(payload), SNAPPY_BLOCK_BYTES) + _STATE_BYTES
    if compression in (0, GZIP):
        return _STATE_BYTES
    if compression == LZ4:
        return 9 * _STATE_BYTES
    return min(_zstd_window_bytes(payload), 1 << ZSTD_MAX_WINDOW_LOG) + _STATE_BYTES


def _zstd_window_bytes(payload: memoryview) -> int:
    """Size in bytes of the largest window that a zstd frame declares. Skippable frames have no window."""
    from ottla.protocol.zstd import zstd

    at = largest = 0
    for _ in range(ZSTD_FRAMES):
        frame = payload[at:]
        if len(frame) < _ZSTD_LEAST_BYTES:
            return largest
        largest = max(largest, _zstd_frame_window_bytes(frame))
        try:
            at += zstd.get_frame_size(frame)
        except zstd.ZstdError:
            return largest
    return largest if at >= len(payload) else 1 << ZSTD_MAX_WINDOW_LOG


def _zstd_frame_window_bytes(frame: memoryview) -> int:
    """The Window_Size in a zstd frame's header (RFC 8878, 3.1.1.1.2) in bytes; the content's size for a single-segment frame."""
    if bytes(frame[:4]) != _ZSTD_MAGIC:
        return 0
    if frame[4] & 0x20:
        from ottla.protocol.zstd import zstd

        try:
            return zstd.get_frame_info(frame[:18]).decompressed_size or 0
        except zstd.ZstdError:
            return 0
    exponent, mantissa = frame[5] >> 3, frame[5] & 7
    return (8 + mantissa) << exponent + 7


def _parts(payload: memoryview, size: int) -> Iterator[memoryview]:
    for at in range(0, len(payload), size):
        yield payload[at : at + size]


def _lz4(stream: Any, payload: memoryview) -> Iterator[bytes]:
    """Decompress one lz4 frame. As in Java, neither the content's size nor its checksum is checked."""
    from ottla.protocol import lz4_frames

    head, begin = lz4_frames.without_content_fields(payload)
    yield stream.decompress(head, PIECE_BYTES)
    for block in lz4_frames.blocks(payload, begin):
        for part in _parts(block, INPUT_BYTES):
            yield stream.decompress(part, PIECE_BYTES)
            while not (stream.needs_input or stream.eof):
                yield stream.decompress(b"", PIECE_BYTES)


def _zstd(payload: memoryview) -> Iterator[bytes]:
    from ottla.protocol.zstd import zstd

    window_log = max(10, min((_zstd_window_bytes(payload) - 1).bit_length(), ZSTD_MAX_WINDOW_LOG))
    options = {int(zstd.DecompressionParameter.window_log_max): window_log}
    at = 0
    while at < len(payload):
        stream = zstd.ZstdDecompressor(options=options)
        while not stream.eof:
            if stream.needs_input and at >= len(payload):
                raise ValueError("the zstd stream is incomplete")
            part = payload[at : at + INPUT_BYTES] if stream.needs_input else b""
            at += len(part)
            yield stream.decompress(part, PIECE_BYTES)
        at -= len(stream.unused_data)


def _snappy(payload: memoryview) -> Iterator[memoryview]:
    """Decompress raw snappy, or the blocks of xerial's format that the Java client writes.

    As in Java (SnappyInputStream), only the magic bytes of the first header are checked, further headers may appear between blocks,
    and fewer than four bytes at the end, the size of a block's length, are ignored.
    """
    if bytes(payload[:8]) != _XERIAL_MAGIC or len(payload) < _XERIAL_HEADER_BYTES:
        yield from _parts(_snappy_block(payload), PIECE_BYTES)
        return
    at = _XERIAL_HEADER_BYTES
    while at + _BLOCK.size <= len(payload):
        (size,) = _BLOCK.unpack_from(payload, at)
        if size == _XERIAL_MAGIC_NUMBER:
            if at + _XERIAL_HEADER_BYTES > len(payload):
                raise ValueError("a later header in the snappy payload is incomplete")
            if bytes(payload[at : at + 8]) != _XERIAL_MAGIC:
                return
            if _BLOCK.unpack_from(payload, at + 8)[0] < _XERIAL_LEAST_VERSION:
                raise ValueError("a later header in the snappy payload has an unknown version")
            at += _XERIAL_HEADER_BYTES
            continue
        at += _BLOCK.size
        if size < 0 or at + size > len(payload):
            raise ValueError(f"invalid snappy block length {size}")
        block = _snappy_block(payload[at : at + size])
        yield from _parts(block, PIECE_BYTES) if len(block) else (block,)
        at += size


def _snappy_block(block: memoryview) -> memoryview:
    size, shift = 0, 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > SNAPPY_MAX_RATIO * len(block):
        raise ValueError(f"a snappy block of {len(block)} bytes cannot decompress to its declared size of {size} bytes")
    if size > SNAPPY_BLOCK_BYTES:
        raise TooLarge(f"a snappy block has {size} bytes; at most {SNAPPY_BLOCK_BYTES} are allowed")
    out = bytearray(size)
    return memoryview(out)[: cramjam.snappy.decompress_raw_into(block, out)]
