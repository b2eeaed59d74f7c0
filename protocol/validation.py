"""A client's records, looked at one by one before they are stored (LogValidator): what consumers could not read is refused.

A compressed batch is inflated to look at it, into a buffer of a fixed size: nothing is allocated by a declared size, and
what is larger than the buffer is stored unseen.
"""

from __future__ import annotations

import zlib
from struct import Struct

import cramjam
from aiokafka.record.default_records import DefaultRecordBatch

from protocol.errors import Code, KafkaError
from protocol.primitives import Buffer
from protocol.records import COMPRESSION_MASK, GZIP, HEADER_BYTES, LZ4, SNAPPY, BatchHeader

INFLATED_LIMIT_BYTES = 64 << 20
SNAPPY_MAX_RATIO = 22
"""Three bytes make 64 at the most: what says more is no snappy."""
_GZIP_WINDOW = 31
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_BLOCK = Struct(">i")

_scratch = bytearray()


class TooLarge(Exception):
    """The payload inflates to more than `INFLATED_LIMIT_BYTES`."""


def check_records(batch: Buffer, header: BatchHeader, *, keys_wanted: bool = False) -> None:
    """Every record must be there, whole, and at its offset; with ``keys_wanted`` each needs a key.

    Raises INVALID_RECORD for records that are not what the header says, CORRUPT_MESSAGE for a payload that cannot be
    inflated.
    """
    if header.compression:
        try:
            payload = inflated(memoryview(batch)[HEADER_BYTES:], header.compression)
        except TooLarge:
            return
        plain = bytearray(HEADER_BYTES + len(payload))
        plain[:HEADER_BYTES] = batch[:HEADER_BYTES]
        plain[22] &= ~COMPRESSION_MASK
        plain[HEADER_BYTES:] = payload
        raw = bytes(plain)
    else:
        raw = bytes(batch)
    try:
        found = list(DefaultRecordBatch(raw))
    except Exception as error:  # the C codec raises many kinds
        raise KafkaError(Code.INVALID_RECORD, f"the records are not what the batch says: {error}") from error
    if len(found) != header.record_count:
        raise KafkaError(Code.INVALID_RECORD, f"{len(found)} records in a batch of {header.record_count}")
    if [record.offset for record in found] != list(range(header.base_offset, header.next_offset)):
        raise KafkaError(Code.INVALID_RECORD, "records that are not in the order of their offsets")
    if keys_wanted and any(record.key is None for record in found):
        raise KafkaError(Code.INVALID_RECORD, "a record without a key for a compacted topic")


def inflated(payload: Buffer, compression: int) -> Buffer:
    """Raises `TooLarge`, and CORRUPT_MESSAGE where the payload is no such thing. Valid until the next call."""
    try:
        if compression == GZIP:
            return _gunzip(payload)
        if compression == SNAPPY:
            return _unsnap(payload)
        out = _room()
        module = cramjam.lz4 if compression == LZ4 else cramjam.zstd
        return memoryview(out)[: module.decompress_into(payload, out)]
    except (cramjam.DecompressionError, zlib.error, IndexError, ValueError) as error:
        if "buffer" in str(error) or "Dest" in str(error):
            raise TooLarge from error
        raise KafkaError(Code.CORRUPT_MESSAGE, f"the batch cannot be inflated: {error}") from error


def _room() -> bytearray:
    """The one buffer; its pages are taken from the system as they are first written."""
    global _scratch  # noqa: PLW0603
    if not _scratch:
        _scratch = bytearray(INFLATED_LIMIT_BYTES)
    return _scratch


def _gunzip(payload: Buffer) -> bytes:
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW)
    found = stream.decompress(payload, INFLATED_LIMIT_BYTES)
    if stream.unconsumed_tail:
        raise TooLarge
    if not stream.eof:
        raise ValueError("the gzip stream is cut off")
    return found


def _unsnap(payload: Buffer) -> Buffer:
    """Raw snappy, or the blocks of xerial's stream that the Java client writes."""
    view = memoryview(payload)
    out = _room()
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return memoryview(out)[: _unsnap_block(view, memoryview(out))]
    at, end = _XERIAL_HEADER_BYTES, 0
    while at < len(view):
        if at + _BLOCK.size > len(view):
            raise ValueError("a snappy block is cut off")
        (size,) = _BLOCK.unpack_from(view, at)
        at += _BLOCK.size
        if size < 0 or at + size > len(view):
            raise ValueError(f"a snappy block of {size} bytes")
        end += _unsnap_block(view[at : at + size], memoryview(out)[end:])
        at += size
    return memoryview(out)[:end]


def _unsnap_block(block: memoryview, out: memoryview) -> int:
    size, shift = 0, 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > SNAPPY_MAX_RATIO * len(block):
        raise ValueError(f"a snappy block of {len(block)} bytes that says it holds {size}")
    if size > len(out):
        raise TooLarge
    written: int = cramjam.snappy.decompress_raw_into(block, out[:size])
    return written
