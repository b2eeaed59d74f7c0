"""Compresses a batch's payload piece by piece, in the format of stock clients: one stream, or xerial's blocks for snappy."""

from __future__ import annotations

import zlib
from typing import Protocol

from aiokafka.codec import snappy_encode

from ottla.protocol.records import GZIP, LZ4, ZSTD

_GZIP_WINDOW = 31
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
    """Writes every piece as some blocks of xerial's format. The format's header stands before the first block only."""

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
    def __init__(self) -> None:
        from lz4.frame import LZ4FrameCompressor

        # Java's reader refuses dependent blocks, which are the library's default.
        self._stream = LZ4FrameCompressor(block_linked=False)
        self._head: bytes = self._stream.begin()

    def compress(self, data: bytes, /) -> bytes:
        head, self._head = self._head, b""
        return head + bytes(self._stream.compress(data))

    def flush(self) -> bytes:
        return self._head + bytes(self._stream.flush())


def _stream(compression: int) -> _Stream:
    if compression == GZIP:
        return zlib.compressobj(wbits=_GZIP_WINDOW)
    if compression == ZSTD:
        from ottla.protocol.zstd import zstd

        return zstd.ZstdCompressor()
    if compression == LZ4:
        return _Lz4()
    return _Snappy() if compression else _Plain()


class Deflated:
    """A payload that is compressed while it grows. ``compression`` is the number in a batch's attributes, 0 for none."""

    def __init__(self, compression: int) -> None:
        self._stream = _stream(compression)
        self._parts: list[bytes] = []

    def add(self, data: bytes | bytearray) -> None:
        self._parts.append(self._stream.compress(bytes(data)))

    def end(self) -> bytes:
        return b"".join([*self._parts, self._stream.flush()])
