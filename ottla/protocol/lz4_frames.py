"""The header of an lz4 frame, as Java reads it (Lz4BlockInputStream).

Java's reader accepts less than the format allows: the blocks must be independent, and dictionaries are not supported. The reader is
also more lenient: it checks neither the content's size nor its checksum, and ignores bytes after the frame, so that a second frame
is not read. Apache Kafka's broker and its Java consumers share this reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error

_MAGIC = b"\x04\x22\x4d\x18"
_VERSION_AND_INDEPENDENCE, _REQUIRED = 0xE3, 0x60
"""Mask and required value of the bits of the FLG byte that have only one allowed value: version, block independence, reserved bit
and dictionary."""
_INDEPENDENCE, _BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_CONTENT_SIZE_BYTES = 8
_UNUSED_OF_BD = 0x8F
_FIRST_BYTES = 6
"""Size in bytes of magic number, FLG and BD."""
_SMALLEST_BLOCK_CODE = 4
_WORD = Struct("<I")
_IS_STORED = 0x80000000
"""The bit of a block's size that is set if the block is not compressed."""
_WALKED_BLOCKS = 64
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
"""The primes of xxHash."""


def _times(a: int, b: int) -> int:
    return a * b & 0xFFFFFFFF


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & 0xFFFFFFFF


def header_checksum(descriptor: bytes) -> int:
    """The checksum byte of a frame descriptor of up to 15 bytes: the second byte of its xxHash-32."""
    value = _P5 + len(descriptor)
    words = len(descriptor) & ~3
    for at in range(0, words, 4):
        value = _times(_rotated(value + _times(_WORD.unpack_from(descriptor, at)[0], _P3) & 0xFFFFFFFF, 17), _P4)
    for byte in descriptor[words:]:
        value = _times(_rotated(value + _times(byte, _P5) & 0xFFFFFFFF, 11), _P1)
    value = _times(value ^ value >> 15, _P2)
    value = _times(value ^ value >> 13, _P3)
    return (value ^ value >> 16) >> 8 & 0xFF


def check_header(payload: memoryview, *, may_be_linked: bool = False) -> None:
    """Raise ValueError for a frame whose header Java rejects. The decompressor checks the header's checksum."""
    if len(payload) <= _FIRST_BYTES or bytes(payload[:4]) != _MAGIC:
        raise ValueError("the lz4 frame header is missing")
    flags, sizes = payload[4], payload[5]
    if (flags | (_INDEPENDENCE if may_be_linked else 0)) & _VERSION_AND_INDEPENDENCE != _REQUIRED:
        raise ValueError("Java clients cannot read the lz4 frame: it has linked blocks, a dictionary or another version")
    if sizes & _UNUSED_OF_BD or sizes >> 4 < _SMALLEST_BLOCK_CODE:
        raise ValueError("the lz4 frame has an unknown block size")


def _descriptor_end(flags: int) -> int:
    return _FIRST_BYTES + (_CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE else 0)


def blocks(payload: memoryview, at: int) -> Iterator[memoryview]:
    """Yield the blocks of a frame, from the first block at ``at`` to the end mark, each with its size and checksum.

    As in Java, a block without content also ends the frame. Raises ValueError for a frame that is cut off.
    """
    between = 8 if payload[4] & _BLOCK_CHECKSUM else 4
    while True:
        if at + _WORD.size > len(payload):
            raise ValueError("the lz4 frame is incomplete")
        word = _WORD.unpack_from(payload, at)[0]
        size = word & ~_IS_STORED
        if not size:
            if at + _WORD.size + _trailer_bytes(payload) > len(payload):
                raise ValueError("the checksum of the lz4 frame is incomplete")
            yield payload[at : at + _WORD.size]
            return
        end = at + between + size
        if end > len(payload):
            raise ValueError("the lz4 frame is incomplete")
        if _is_empty(payload, at, word):
            return
        yield payload[at:end]
        at = end


def _is_empty(payload: memoryview, at: int, word: int) -> bool:
    return word == 1 and payload[at + _WORD.size] == 0


def is_one_frame(payload: memoryview) -> bool:
    """Whether a payload that `check_header` accepts ends with its first frame. False for more than 64 blocks."""
    try:
        flags = payload[4]
        at, between = _descriptor_end(flags) + 1, 8 if flags & _BLOCK_CHECKSUM else 4
        for _ in range(_WALKED_BLOCKS):
            (word,) = _WORD.unpack_from(payload, at)
            size = word & ~_IS_STORED
            if not size:
                return word == 0 and at + _WORD.size + _trailer_bytes(payload) == len(payload)
            if _is_empty(payload, at, word):
                return False
            at += between + size
    except (IndexError, error):
        return False
    return False


def without_content_fields(payload: memoryview) -> tuple[bytes, int]:
    """Return the frame's header without the content's size and checksum, and the position of the first block.

    The blocks may be linked: older brokers may have stored such frames. Raises ValueError for anything else that `check_header`
    rejects.
    """
    check_header(payload, may_be_linked=True)
    end = _descriptor_end(payload[4])
    if len(payload) <= end or header_checksum(bytes(payload[4:end])) != payload[end]:
        raise ValueError("the header of the lz4 frame has a wrong checksum")
    descriptor = bytes((payload[4] & ~(_CONTENT_SIZE | _CONTENT_CHECKSUM), payload[5]))
    return _MAGIC + descriptor + bytes((header_checksum(descriptor),)), end + 1


def _trailer_bytes(payload: memoryview) -> int:
    return 4 if payload[4] & _CONTENT_CHECKSUM else 0
