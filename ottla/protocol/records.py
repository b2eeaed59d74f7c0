"""Record batches (message format v2): headers, checks, control batches, and the coordinators' small batches.

The broker reads the 61-byte header of a batch and treats the rest as opaque bytes. The CRC covers only the bytes after the CRC
field, so the broker can write base offset and leader epoch into a client's batch. aiokafka's C codec decodes and builds records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
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
"""Size in bytes of base offset and batch length, which ``batch_length`` does not include."""
MAGIC_AT = 16
ATTRIBUTES_AT = 22
"""Position in the header of the byte of the attributes that has the compression and the flags."""
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
"""The names of the compression types, indexed by their number (org.apache.kafka.common.record.CompressionType)."""
_LZ4_FAST = 1
"""The lz4 level that corresponds to Java's default: twenty times as fast as level 9, with 10% larger output."""
_ENCODERS = {GZIP: gzip_encode, SNAPPY: snappy_encode, LZ4: lambda p: lz4_encode(p, level=_LZ4_FAST), ZSTD: zstd_encode}

_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_PREFIX = Struct(">qiib")


class BatchHeader(msgspec.Struct, gc=False, frozen=True):
    """The header of one record batch, with the fields in the order of the format."""

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


def transactional_header(records: Buffer | None) -> BatchHeader | None:
    """The header of the first batch of a partition's records in a Produce request, if that batch is transactional.

    None for all other bytes, also for a batch of magic 0 or 1.
    """
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] != 2 or not records[ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
        return None
    return read_header(records)


def crc_is_valid(buf: Buffer, header: BatchHeader, pos: int = 0) -> bool:
    end = pos + header.size_bytes
    if pos == 0 and end == len(buf):
        return bool(crc32c(memoryview(buf)[CRC_START:]) == header.crc)
    return bool(crc32c(memoryview(buf)[pos + CRC_START : end]) == header.crc)


def batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in ``buf``; ends before a batch that is cut off."""
    pos, end = 0, len(buf)
    while end - pos >= HEADER_BYTES:
        header = read_header(buf, pos)
        if header.batch_length < MIN_BATCH_LENGTH or pos + header.size_bytes > end:
            return
        yield pos, header
        pos += header.size_bytes


def produced_crc(records: Buffer) -> int:
    """The correct CRC of a client's batch. Takes 0.1 ms for each MiB, and releases the GIL."""
    return int(crc32c(memoryview(records)[CRC_START:]))


def check_produced(records: Buffer, *, zstd_allowed: bool = True, crc: int | None = None) -> BatchHeader:
    """Run the checks of a client's batch that need no log, and return its header.

    ``crc`` is the result of `produced_crc` if the caller has computed it. Raises `KafkaError` as LogValidator and
    ProduceRequest.validateRecords do: INVALID_RECORD for anything but one well-formed data batch of magic 2, CORRUPT_MESSAGE for a
    wrong CRC, size or magic, UNSUPPORTED_COMPRESSION_TYPE for zstd before Produce 7.
    """
    size = len(records)
    if size < _PREFIX.size:
        raise KafkaError(Code.INVALID_RECORD, "a produce request must contain exactly one record batch for each partition")
    _, length, _, magic = _PREFIX.unpack_from(records)
    if magic != 2:
        if magic in (0, 1):
            raise KafkaError(Code.INVALID_RECORD, "only record batches of magic 2 are supported")
        raise KafkaError(Code.CORRUPT_MESSAGE, f"unsupported record batch magic {magic}")
    if length < MIN_BATCH_LENGTH:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"invalid record batch length {length}: at least {MIN_BATCH_LENGTH} is required")
    if length + LENGTH_OVERHEAD != size:
        raise KafkaError(Code.INVALID_RECORD, "a produce request must contain exactly one record batch for each partition")
    header = BatchHeader(*HEADER.unpack_from(records))
    if header.base_offset:
        raise KafkaError(Code.INVALID_RECORD, f"invalid base offset {header.base_offset}: a producer's batch has base offset 0")
    if (produced_crc(records) if crc is None else crc) != header.crc:
        raise KafkaError(Code.CORRUPT_MESSAGE, "the record batch has a wrong CRC")
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        raise KafkaError(Code.INVALID_RECORD, "clients must not write control batches")
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise KafkaError(Code.INVALID_RECORD, f"record count {count} does not match last offset delta {header.last_offset_delta}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            Code.INVALID_RECORD, f"invalid base sequence {header.base_sequence}: an idempotent producer's is at least 0"
        )
    compression = attributes & COMPRESSION_MASK
    if compression > MAX_COMPRESSION:
        raise KafkaError(Code.INVALID_RECORD, f"unknown compression type {compression}")
    if compression == ZSTD and not zstd_allowed:
        raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, "zstd compression requires Produce version 7 or newer")
    return header


def assign(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into a batch. The CRC does not cover these fields."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, 12, leader_epoch)


def renew_crc(batch: bytearray | memoryview) -> None:
    """Compute the CRC of a batch and write it into the header."""
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))


def stamp_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Give a batch the timestamp type LogAppendTime and the timestamp ``now_ms``, and renew its CRC, as Kafka does."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batch, 35, now_ms)
    renew_crc(batch)


def correct_timestamps(batch: bytearray | memoryview, max_timestamp_ms: int) -> BatchHeader:
    """Set the header's timestamp type to CreateTime, and its largest timestamp to the records' largest, and renew the CRC.

    Returns the new header.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes & ~TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batch, 35, max_timestamp_ms)
    renew_crc(batch)
    return read_header(batch)


def compress(payload: bytes, compression: int) -> bytes:
    """Compress a payload. ``compression`` is the number in a batch's attributes, 0 for none."""
    return bytes(_ENCODERS[compression](payload)) if compression else payload


def pack_batch(header: BatchHeader, payload: bytes) -> bytearray:
    """Build a batch from a header and its payload, which is already compressed. Sets batch length and CRC."""
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
    """Set attribute bits of a batch that the broker built, and renew its CRC."""
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
    """Decode one batch of any compression. Raises CORRUPT_MESSAGE if the payload does not match the header."""
    try:
        decoded = DefaultRecordBatch(bytes(batch))
        return [Record(r.offset, r.timestamp, r.key, r.value) for r in decoded]
    except Exception as error:  # aiokafka's C codec raises many exception types
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
    """Build a batch of (key, value) records with one timestamp, at base offset 0."""
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


def build_batch_within(
    records: Iterable[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], timestamp_ms: int, size_bytes: int
) -> tuple[bytearray, int]:
    """Build a batch of the first (key, value, headers) records that fit into ``size_bytes``, at least one; returns their number
    too."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        # The builder rejects a record if the batch would reach this size.
        batch_size=size_bytes + 1,
    )
    count = 0
    for key, value, headers in records:
        if builder.append(count, timestamp_ms, key, value, headers) is None:
            break
        count += 1
    return bytearray(builder.build()), count


class ControlType(IntEnum):
    """Type of a control record (org.apache.kafka.common.record.ControlRecordType)."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(msgspec.Struct, frozen=True):
    """The content of one transaction marker (EndTransactionMarker)."""

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
    return bytearray(_marker_batch(marker, timestamp_ms))


@lru_cache(maxsize=16)
def _marker_batch(marker: EndTxnMarker, timestamp_ms: int) -> bytes:
    """A marker's batch before its offset and leader epoch are set: the same in all partitions of a transaction."""
    control = ControlType.COMMIT if marker.commit else ControlType.ABORT
    record = _MARKER_RECORD_HEAD + _CONTROL_KEY.pack(0, control) + b"\x0c" + _MARKER_VALUE.pack(0, marker.coordinator_epoch) + b"\0"
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    batch = pack_batch(
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
    return bytes(batch)


def marker_of(header: BatchHeader, key: bytes | None, value: bytes | None) -> EndTxnMarker | None:
    """The marker in the first record of a control batch; None for another kind of record.

    Raises CORRUPT_MESSAGE for a marker whose value is too short.
    """
    if key is None or len(key) < _CONTROL_KEY.size:
        return None
    _, control = _CONTROL_KEY.unpack_from(key)
    if control not in (ControlType.ABORT, ControlType.COMMIT) or value is None:
        return None
    if len(value) < _MARKER_VALUE.size:
        raise KafkaError(
            Code.CORRUPT_MESSAGE, f"a marker's value has {len(value)} bytes; at least {_MARKER_VALUE.size} are required"
        )
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    return EndTxnMarker(header.producer_id, header.producer_epoch, control == ControlType.COMMIT, coordinator_epoch)
