"""Compresses a batch's payload piece by piece, in the format of stock clients: one stream, or xerial's blocks for snappy."""

from __future__ import annotations

import zlib
from typing import Protocol

from aiokafka.codec import snappy_encode

from ottla.protocol.records import GZIP, LZ4, ZSTD

_GZIP_WINDOW = 31
_GZIP_LEVEL = -1
LZ4_DEFAULT_LEVEL = 9
"""The default of ``compression.lz4.level``. As in Java (Lz4BlockOutputStream) it selects the fast compressor, not level 9."""
_LZ4_FAST = 0
_XERIAL_HEADER_BYTES = 16


class _Stream(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


class _Snappy:
    """Writes every piece as blocks of xerial's format, with the format's header only before the first block."""

    def __init__(self) -> None:
        self._begun = False

    def compress(self, data: bytes, /) -> bytes:
        blocks = bytes(snappy_encode(bytes(data)))
        if self._begun:
            return blocks[_XERIAL_HEADER_BYTES:]
        self._begun = True
        return blocks

    def flush(self) -> bytes:
        return b"" if self._begun else self.compress(b"")


class _Lz4:
    def __init__(self, level: int) -> None:
        from lz4.frame import LZ4FrameCompressor

        # Java's reader rejects linked blocks, the default of the lz4 library.
        self._stream = LZ4FrameCompressor(block_linked=False, compression_level=level)
        self._head: bytes = self._stream.begin()

    def compress(self, data: bytes, /) -> bytes:
        head, self._head = self._head, b""
        return head + bytes(self._stream.compress(data))

    def flush(self) -> bytes:
        return self._head + bytes(self._stream.flush())


def _stream(compression: int, level: int | None, size_bytes: int | None) -> _Stream:
    if compression == GZIP:
        return zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=_GZIP_WINDOW)
    if compression == ZSTD:
        from ottla.protocol.zstd import zstd

        stream = zstd.ZstdCompressor(level)
        if size_bytes is not None:
            # Without the size of the payload, zstd takes hundreds of megabytes of memory at high levels.
            stream.set_pledged_input_size(size_bytes)
        return stream
    if compression == LZ4:
        return _Lz4(_LZ4_FAST if level in (None, LZ4_DEFAULT_LEVEL) else level)
    return _Snappy() if compression else _Plain()


class Deflated:
    """A payload that is compressed while it grows. ``compression`` is the number in a batch's attributes, 0 for none.

    ``level`` is the compression level as in Kafka's configs; None for the default. ``size_bytes`` is the total size of the data
    that will be added, if known.
    """

    def __init__(self, compression: int, level: int | None = None, size_bytes: int | None = None) -> None:
        self._stream = _stream(compression, level, size_bytes)
        self._parts: list[bytes] = []
        self.deflated_bytes = 0
        """The size of the compressed data so far, without the data in the compressor's buffer."""

    def add(self, data: bytes | bytearray) -> None:
        self._keep(self._stream.compress(bytes(data)))

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self.deflated_bytes += len(part)

    def end(self) -> bytes:
        self._keep(self._stream.flush())
        return b"".join(self._parts)
