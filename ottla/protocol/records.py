"""Record batches (message format v2): headers, checks, control batches, and the coordinators' small batches.

The broker treats a batch as opaque bytes behind a 61-byte header; the CRC covers what follows the epoch and
magic, so offset and leader epoch are patched in place. Records are decoded and built by aiokafka's C codec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from struct import Struct

import msgspec
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import Buffer

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_OVERHEAD = 12
"""Bytes before the part that ``batch_length`` counts."""
CRC_START = 21
MIN_BATCH_LENGTH = HEADER_BYTES - LENGTH_OVERHEAD

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
MAX_COMPRESSION = 4
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Their names, by number (org.apache.kafka.common.record.CompressionType)."""
_LZ4_FAST = 1
"""What Java's default level stands for: twenty times the speed of level 9, for a tenth more bytes."""
_ENCODERS = {GZIP: gzip_encode, SNAPPY: snappy_encode, LZ4: lambda p: lz4_encode(p, level=_LZ4_FAST), ZSTD: zstd_encode}

_OFFSET_AND_LENGTH = Struct(">qi")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_PREFIX = Struct(">qiib")


class BatchHeader(msgspec.Struct, gc=False, frozen=True):
    """The header of one record batch; field for field what is on disk."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK


def advance_sequence(sequence: int, by: int) -> int:
    """The sequence number ``by`` records later; wraps from 2^31-1 to 0 (DefaultRecordBatch.incrementSequence)."""
    if sequence > 0x7FFFFFFF - by:
        return by - (0x7FFFFFFF - sequence) - 1
    return sequence + by


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    return BatchHeader(*HEADER.unpack_from(buf, pos))


def crc_is_valid(buf: Buffer, header: BatchHeader, pos: int = 0) -> bool:
    end = pos + header.size_bytes
    if pos == 0 and end == len(buf):
        return bool(crc32c(memoryview(buf)[CRC_START:]) == header.crc)
    return bool(crc32c(memoryview(buf)[pos + CRC_START : end]) == header.crc)


def batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; stops before one that is cut off."""
    pos, end = 0, len(buf)
    while end - pos >= HEADER_BYTES:
        header = read_header(buf, pos)
        if header.batch_length < MIN_BATCH_LENGTH or pos + header.size_bytes > end:
            return
        yield pos, header
        pos += header.size_bytes


def produced_crc(records: Buffer) -> int:
    """The CRC that a client's batch ought to have: a tenth of a millisecond's work a mebibyte, without Python's lock."""
    return int(crc32c(memoryview(records)[CRC_START:]))


def check_produced(records: Buffer, *, zstd_allowed: bool = True, crc: int | None = None) -> BatchHeader:
    """The header of a client's batch after every check that needs no log. ``crc``: what `produced_crc` gave, if it was asked.

    Raises `KafkaError` as LogValidator and ProduceRequest.validateRecords do: INVALID_RECORD for anything but one
    well-formed v2 data batch, CORRUPT_MESSAGE for a wrong CRC, size or magic.
    """
    size = len(records)
    if size < _PREFIX.size:
        raise KafkaError(Code.INVALID_RECORD, "a produce request must hold exactly one record batch a partition")
    _, length, _, magic = _PREFIX.unpack_from(records)
    if magic != 2:
        if magic in (0, 1):
            raise KafkaError(Code.INVALID_RECORD, "only record batches of magic 2 are taken")
        raise KafkaError(Code.CORRUPT_MESSAGE, f"record batch of magic {magic}")
    if length < MIN_BATCH_LENGTH:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"record batch of length {length}")
    if length + LENGTH_OVERHEAD != size:
        raise KafkaError(Code.INVALID_RECORD, "a produce request must hold exactly one record batch a partition")
    header = BatchHeader(*HEADER.unpack_from(records))
    if header.base_offset:
        raise KafkaError(Code.INVALID_RECORD, f"a base offset of {header.base_offset}, and clients begin with 0")
    if (produced_crc(records) if crc is None else crc) != header.crc:
        raise KafkaError(Code.CORRUPT_MESSAGE, "record batch with a wrong CRC")
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        raise KafkaError(Code.INVALID_RECORD, "clients may not write control batches")
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise KafkaError(Code.INVALID_RECORD, f"{count} records with a last offset delta of {header.last_offset_delta}")
    if header.producer_id >= 0 and header.producer_epoch >= 0 and header.base_sequence < 0:
        raise KafkaError(Code.INVALID_RECORD, f"base sequence {header.base_sequence} of an idempotent producer")
    compression = attributes & COMPRESSION_MASK
    if compression > MAX_COMPRESSION:
        raise KafkaError(Code.INVALID_RECORD, f"unknown compression {compression}")
    if compression == ZSTD and not zstd_allowed:
        raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs produce version 7")
    if attributes & TRANSACTIONAL_BIT and header.producer_id < 0:
        raise KafkaError(Code.INVALID_RECORD, "a transactional batch without a producer id")
    return header


def assign(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Patch base offset and leader epoch, which the CRC does not cover."""
    length = _EPOCH.unpack_from(batch, 8)[0]
    _OFFSET_AND_LENGTH.pack_into(batch, 0, base_offset, length)
    _EPOCH.pack_into(batch, 12, leader_epoch)


def renew_crc(batch: bytearray | memoryview) -> None:
    """Make the CRC what the rest of the batch asks for."""
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))


def stamp_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Mark a batch LogAppendTime at ``now_ms`` and renew its CRC, as Kafka does for such a topic."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batch, 35, now_ms)
    renew_crc(batch)


def correct_timestamps(batch: bytearray | memoryview, max_timestamp_ms: int) -> BatchHeader:
    """Have the header of a client's batch say what its records say, of timestamps of the client's own; renews the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes & ~TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batch, 35, max_timestamp_ms)
    renew_crc(batch)
    return read_header(batch)


def compress(payload: bytes, compression: int) -> bytes:
    """``compression`` by its number in the attributes, 0 for none."""
    return bytes(_ENCODERS[compression](payload)) if compression else payload


def pack_batch(header: BatchHeader, payload: bytes) -> bytearray:
    """The batch of a header and its records as they stand behind it; length and CRC are made to fit."""
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        MIN_BATCH_LENGTH + len(payload),
        header.leader_epoch,
        header.magic,
        0,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    batch += payload
    renew_crc(batch)
    return batch


def with_attributes(batch: bytearray, attributes: int) -> bytearray:
    """Set attribute bits of a batch of our own and renew its CRC."""
    (known,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, known | attributes)
    renew_crc(batch)
    return batch


class Record(msgspec.Struct, gc=False):
    """One decoded record. ``offset`` and ``timestamp_ms`` are absolute."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_records(batch: Buffer) -> list[Record]:
    """Decode one batch (any compression). Raises CORRUPT_MESSAGE when the payload is not what the header says."""
    try:
        decoded = DefaultRecordBatch(bytes(batch))
        return [Record(r.offset, r.timestamp, r.key, r.value) for r in decoded]
    except Exception as error:  # the C codec raises many kinds
        raise KafkaError(Code.CORRUPT_MESSAGE, f"a batch cannot be decoded: {error}") from error


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    compression: int = 0,
) -> bytearray:
    """One batch of (key, value) records, all of one timestamp, at offset 0."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=1 if transactional else 0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    for offset, (key, value) in enumerate(records):
        builder.append(offset, timestamp_ms, key, value, [])
    return bytearray(builder.build())


class ControlType(IntEnum):
    """Type of a control record (org.apache.kafka.common.record.ControlRecordType)."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(msgspec.Struct, frozen=True):
    """What one transaction marker says."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


_CONTROL_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
# One record: length 16, attributes 0, timestamp delta 0, offset delta 0, key length 4, key, value length 6, value, no headers.
_MARKER_RECORD_HEAD = bytes((0x20, 0, 0, 0, 0x08))


def build_marker(marker: EndTxnMarker, timestamp_ms: int) -> bytearray:
    """The control batch that ends a transaction in one partition (EndTransactionMarker)."""
    control = ControlType.COMMIT if marker.commit else ControlType.ABORT
    record = _MARKER_RECORD_HEAD + _CONTROL_KEY.pack(0, control) + b"\x0c" + _MARKER_VALUE.pack(0, marker.coordinator_epoch) + b"\0"
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    return pack_batch(
        BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=attributes,
            last_offset_delta=0,
            base_timestamp_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            base_sequence=NO_SEQUENCE,
            record_count=1,
        ),
        record,
    )


def marker_of(header: BatchHeader, key: bytes | None, value: bytes | None) -> EndTxnMarker | None:
    """What the first record of a control batch says. Raises CORRUPT_MESSAGE for half a marker."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return None
    _, control = _CONTROL_KEY.unpack_from(key)
    if control not in (ControlType.ABORT, ControlType.COMMIT) or value is None:
        return None
    if len(value) < _MARKER_VALUE.size:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"a marker of {len(value)} bytes")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    return EndTxnMarker(header.producer_id, header.producer_epoch, control == ControlType.COMMIT, coordinator_epoch)
