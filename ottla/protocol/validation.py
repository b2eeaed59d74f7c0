"""Checks a client's records before they are stored (LogValidator), and rejects records that consumers could not read.

aiokafka's C codec checks small batches at once. Larger batches are decompressed in pieces and checked a few records at a time:
memory is bounded whatever the header declares, and no record is stored unchecked.
"""

from __future__ import annotations

from typing import NamedTuple

import cramjam
import msgspec
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import SNAPPY_MAX_RATIO, Allowance, TooLarge, pieces
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import MAX_RECORD_BYTES, MIN_RECORD_BYTES, RecordStream, malformed, plain
from ottla.protocol.records import HEADER_BYTES, LZ4, NO_TIMESTAMP, SNAPPY, TIMESTAMP_TYPE_BIT, ZSTD, BatchHeader
from ottla.protocol.steps import next_turn

SMALL_RECORDS = 5_000
SMALL_BYTES = 1 << 18
"""Limits of a batch that is checked without a pause: records, and bytes both compressed and decompressed. The check usually takes
one or two milliseconds, and up to ten if the records consist of two-byte headers."""
BLAMED_AT_ONCE = 2_000
"""A batch with bad records, and with more records than this, is checked again in steps: collecting its errors takes longer."""
MAX_RECORD_ERRORS = 10_000
"""Maximum number of bad records of one batch in a response. Further bad records are only counted."""
_SHOWN_ERRORS = 3

_scratch = bytearray()


class Rules(msgspec.Struct, frozen=True):
    """A topic's rules for records. Timestamps must be in [earliest_ms, latest_ms], except with LogAppendTime."""

    partition: str
    keys_wanted: bool
    is_append_time: bool
    earliest_ms: int
    latest_ms: int
    max_record_bytes: int = MAX_RECORD_BYTES
    """Maximum size in bytes of a record in a compressed batch (``max.decompressed.message.bytes``)."""


class RecordError(NamedTuple):
    """The reason that a record was rejected (KIP-467). ``batch_index`` is the record's index in the batch."""

    batch_index: int
    message: str


class RecordsRefused(KafkaError):
    """The batch has bad records: INVALID_TIMESTAMP if a timestamp is bad, else INVALID_RECORD. ``count`` is the number of bad
    records."""

    def __init__(self, errors: list[RecordError], count: int, *, is_timestamp: bool) -> None:
        self.errors = errors
        if is_timestamp:
            super().__init__(Code.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp")
            return
        shown = ", ".join(f"RecordError(batchIndex={e.batch_index}, message='{e.message}')" for e in errors[:_SHOWN_ERRORS])
        super().__init__(
            Code.INVALID_RECORD,
            f"One or more records have been rejected due to {count} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]",
        )


def _timestamps(plain_batch: bytes, first_offset: int, *, keys_wanted: bool) -> list[int]:
    """The timestamps of the records that have the correct offset, and have a key if ``keys_wanted``.

    Raises INVALID_RECORD, and UnicodeDecodeError if a header key is not UTF-8. No record object is kept, which is faster and saves
    memory.
    """
    try:
        records = enumerate(DefaultRecordBatch(plain_batch), first_offset)
        if keys_wanted:
            return [record.timestamp for offset, record in records if record.offset == offset and record.key is not None]
        return [record.timestamp for offset, record in records if record.offset == offset]
    except UnicodeDecodeError:
        raise
    except Exception as error:  # aiokafka's C codec raises many exception types
        raise malformed(str(error)) from error


class _Check:
    """Checks the records of one batch, some at a time, and collects their errors."""

    __slots__ = ("_errors", "_failed", "_header", "_is_timestamp", "_rules", "checked", "max_timestamp_ms")

    def __init__(self, header: BatchHeader, rules: Rules) -> None:
        self._header = header
        self._rules = rules
        self._errors: list[RecordError] = []
        self._failed = 0
        self._is_timestamp = False
        self.checked = 0
        self.max_timestamp_ms = NO_TIMESTAMP

    def inspect(self, plain_batch: bytes, count: int) -> None:
        """Check the next ``count`` records. Raises INVALID_RECORD if their offsets are not consecutive.

        Raises UnicodeDecodeError, with nothing checked, if a header key is not UTF-8.
        """
        highest = _sound(plain_batch, self._header, self._rules, self.checked, count)
        if highest is None:
            highest = self._blame(list(DefaultRecordBatch(plain_batch)))
        self.max_timestamp_ms = max(self.max_timestamp_ms, highest)
        self.checked += count

    def _blame(self, records: list[DefaultRecord]) -> int:
        first = self._header.base_offset + self.checked
        if [record.offset for record in records] != list(range(first, first + len(records))):
            raise malformed("offsets are not in order")
        for index, record in enumerate(records, self.checked):
            message = self._key_error(record)
            if message is None:
                message = self._timestamp_error(record)
                self._is_timestamp |= message is not None
            if message is not None:
                self._failed += 1
                if self._failed <= MAX_RECORD_ERRORS:
                    self._errors.append(RecordError(index, message))
        highest: int = max(record.timestamp for record in records)
        return highest

    def _key_error(self, record: DefaultRecord) -> str | None:
        if self._rules.keys_wanted and record.key is None:
            return f"Compacted topic cannot accept message without key in topic partition {self._rules.partition}"
        return None

    def _timestamp_error(self, record: DefaultRecord) -> str | None:
        rules, stamp = self._rules, record.timestamp
        if not rules.is_append_time and stamp != NO_TIMESTAMP:
            if rules.earliest_ms <= stamp <= rules.latest_ms:
                return None
            return (
                f"Timestamp {stamp} of message with offset {record.offset} is out of range. "
                f"The timestamp should be within [{rules.earliest_ms}, {rules.latest_ms}]"
            )
        if self._header.attributes & TIMESTAMP_TYPE_BIT:
            return (
                f"Invalid timestamp type in message at offset {record.offset} with timestamp {stamp}. "
                "Producer should not set timestamp type to LogAppendTime."
            )
        return None

    def end(self) -> int:
        """Finish the check; returns the largest timestamp. Raises `RecordsRefused`, and INVALID_RECORD for missing records."""
        if self.checked != self._header.record_count:
            raise malformed(f"{self.checked} records in a batch of {self._header.record_count}")
        if self._failed:
            raise RecordsRefused(self._errors, self._failed, is_timestamp=self._is_timestamp)
        return self.max_timestamp_ms


def _sound(plain_batch: bytes, header: BatchHeader, rules: Rules, first: int, count: int) -> int | None:
    """The largest timestamp of ``count`` records; None if one of them is bad. Raises the same errors as `_timestamps`."""
    stamps = _timestamps(plain_batch, header.base_offset + first, keys_wanted=rules.keys_wanted)
    if len(stamps) != count or header.attributes & TIMESTAMP_TYPE_BIT:
        return None
    highest = max(stamps)
    if rules.is_append_time or (highest <= rules.latest_ms and min(stamps) >= rules.earliest_ms):
        return highest
    return None


def check_records(batch: Buffer, header: BatchHeader, rules: Rules, allowance: Allowance) -> int | None:
    """Check a small batch without a pause: every record must be whole, at its offset, with an allowed key and timestamp.

    Returns the largest timestamp of the records; None for a batch that `check_in_steps` must check. Raises INVALID_RECORD for
    records that do not match the header, CORRUPT_MESSAGE for a payload that cannot be decompressed, MESSAGE_TOO_LARGE if it
    decompresses to more than ``allowance``, and `RecordsRefused`.
    """
    count, left_bytes = header.record_count, allowance.left_bytes
    _check_head(batch, header, allowance)
    if count > SMALL_RECORDS or len(batch) > SMALL_BYTES:
        return None
    if header.compression:
        payload = _small(memoryview(batch)[HEADER_BYTES:], header.compression)
        if payload is None or len(payload) > rules.max_record_bytes:
            # A record may be too large; `check_in_steps` checks that.
            return None
        try:
            allowance.take(len(payload))
        except TooLarge:
            raise _too_large(allowance) from None
        plain_batch = plain(header, payload, count)
    else:
        plain_batch = bytes(batch)
    try:
        highest = _sound(plain_batch, header, rules, 0, count)
    except UnicodeDecodeError:
        allowance.left_bytes = left_bytes
        return None
    if highest is not None:
        return highest
    if count > BLAMED_AT_ONCE:
        allowance.left_bytes = left_bytes
        return None
    check = _Check(header, rules)
    check.inspect(plain_batch, count)
    return check.end()


async def check_in_steps(batch: Buffer, header: BatchHeader, rules: Rules, allowance: Allowance, stream: RecordStream) -> int:
    """Check a batch of any size in steps; returns and raises the same as `check_records`. ``batch`` must not change meanwhile."""
    _check_head(batch, header, allowance)
    check = _Check(header, rules)
    records_left, left_bytes = SMALL_RECORDS, SMALL_BYTES
    try:
        while True:
            records, count = await stream.next_records()
            if not count:
                break
            if check.checked + count > header.record_count:
                raise malformed(f"more than {header.record_count} records")
            records_left, left_bytes = records_left - count, left_bytes - len(records)
            if records_left < 0 or left_bytes < 0:
                records_left, left_bytes = SMALL_RECORDS - count, SMALL_BYTES - len(records)
                await next_turn()
            try:
                check.inspect(plain(header, records, count), count)
            except UnicodeDecodeError:
                from ottla.protocol.header_keys import with_readable_headers

                records = await with_readable_headers(records, keeps_headers=False)
                check.inspect(plain(header, records, count), count)
    except TooLarge:
        if allowance.left_bytes >= 0:
            raise
        raise _too_large(allowance) from None
    return check.end()


def _too_large(allowance: Allowance) -> KafkaError:
    return KafkaError(
        Code.MESSAGE_TOO_LARGE,
        f"the request's batches decompress to more than {allowance.limit_bytes} bytes (ottla.request.inflated.max.bytes)",
    )


def _check_head(batch: Buffer, header: BatchHeader, allowance: Allowance) -> None:
    """Reject a batch that declares more records than its bytes can contain, before any record is decoded.

    Raises INVALID_RECORD, MESSAGE_TOO_LARGE if that many records would decompress to more than ``allowance``, and CORRUPT_MESSAGE
    for an lz4 frame that Java cannot read.
    """
    least = header.record_count * MIN_RECORD_BYTES
    size = len(batch) - HEADER_BYTES
    if not header.compression and least > size:
        raise malformed(f"{header.record_count} records in {size} bytes")
    if header.compression and least > allowance.left_bytes:
        raise _too_large(allowance)
    if header.compression == LZ4:
        from ottla.protocol import lz4_frames

        try:
            lz4_frames.check_header(memoryview(batch)[HEADER_BYTES:])
        except ValueError as error:
            raise KafkaError(Code.CORRUPT_MESSAGE, f"the batch cannot be decompressed: {error}") from error


def _small(payload: memoryview, compression: int) -> Buffer | None:
    """The decompressed payload; None if it is larger than `SMALL_BYTES`, or must be decompressed in pieces to find the error."""
    global _scratch  # noqa: PLW0603
    if not _scratch:
        _scratch = bytearray(SMALL_BYTES)
    if compression == SNAPPY and len(payload) * SNAPPY_MAX_RATIO > SMALL_BYTES:
        return None
    if compression == LZ4:
        from ottla.protocol import lz4_frames

        if not lz4_frames.is_one_frame(payload):
            return None
    if compression in (LZ4, ZSTD):
        module = cramjam.lz4 if compression == LZ4 else cramjam.zstd
        try:
            written = module.decompress_into(payload, _scratch)
            return memoryview(_scratch)[:written]
        except (cramjam.DecompressionError, ValueError):
            # The payload is too large or damaged. `check_in_steps` finds out which.
            return None
    inflated = bytearray()
    for piece in pieces(payload, compression):
        inflated += piece
        if len(inflated) > SMALL_BYTES:
            return None
    return inflated
