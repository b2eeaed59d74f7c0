"""Consumed and new records, and the batches that contain them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import Final

from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

from ottla.client.errors import BatchTooLarge, ClientError, TooMuch
from ottla.protocol.errors import KafkaError
from ottla.protocol.header_keys import with_readable_headers
from ottla.protocol.inflating import Allowance, TooLarge, pieces
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import plain, zigzag
from ottla.protocol.records import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ControlType,
    crc_is_valid,
    pack_batch,
)
from ottla.protocol.steps import run

MAX_INFLATED_BYTES: Final = 256 << 20
"""Maximum decompressed size of one batch, in bytes."""
MAX_BATCH_RECORDS: Final = 2_000_000
"""Maximum number of records that are decoded from one batch into a list. Two million take about 800 MiB."""
_CONTROL_KEY = Struct(">hh")
_NULL = b"\1"
"""The encoding of null: the length -1 as a varint."""

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True, frozen=True)
class ConsumedRecord:
    """A record of a topic. ``control`` is None for data, or the type of a control record, such as ``COMMIT`` or ``ABORT``."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    producer_id: int
    producer_epoch: int
    transactional: bool
    control: str | None


@dataclass(slots=True, frozen=True)
class NewRecord:
    """A record to write. If ``partition`` is None the key determines the partition, as in Java's producer. If ``timestamp_ms`` is
    None the timestamp is the current time."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=tuple)
    partition: int | None = None
    timestamp_ms: int | None = None


def decode_batch(topic: str, partition: int, batch: Buffer, header: BatchHeader) -> list[ConsumedRecord]:
    """Decode one batch. Raises `ClientError` for a damaged batch, `TooMuch` for a batch that exceeds a limit."""
    records = list(islice(decoded(topic, partition, batch, header), MAX_BATCH_RECORDS + 1))
    if len(records) > MAX_BATCH_RECORDS:
        raise TooMuch(f"{_named(topic, partition, header)} has more than {MAX_BATCH_RECORDS:,} records")
    return records


def decoded(
    topic: str, partition: int, batch: Buffer, header: BatchHeader, allowance: Allowance | None = None
) -> Iterator[ConsumedRecord]:
    """Decode one batch lazily, because a batch of a few KiB may contain forty million small records.

    ``allowance`` limits the decompressed bytes of several batches. With None the limit is `MAX_INFLATED_BYTES` for this batch.
    """
    where = _named(topic, partition, header)
    allowance = Allowance(MAX_INFLATED_BYTES) if allowance is None else allowance
    is_alone = allowance.left_bytes == allowance.limit_bytes
    if header.magic != 2:
        raise ClientError(f"{where} has the old message format {header.magic}, which this client does not read")
    if not crc_is_valid(batch, header):
        raise ClientError(f"{where} is damaged: its CRC is wrong")
    try:
        parts: list[Buffer] = [plain(header, b"", header.record_count)]
        for piece in pieces(memoryview(batch)[HEADER_BYTES:], header.compression):
            allowance.take(len(piece))
            parts.append(piece)
        whole = b"".join(parts)
        parts.clear()
        read = 0
        try:
            for record in DefaultRecordBatch(whole):
                yield _record(topic, partition, header, record)
                read += 1
        except UnicodeDecodeError:
            records = run(with_readable_headers(whole[HEADER_BYTES:], keeps_headers=True))
            for record in islice(DefaultRecordBatch(plain(header, records, header.record_count)), read, None):
                yield _record(topic, partition, header, record)
    except TooLarge:
        raise BatchTooLarge(
            f"{where} inflates to more than {allowance.limit_bytes >> 20} MiB",
            partition=partition,
            first_offset=header.base_offset,
            next_offset=header.next_offset,
            is_alone=is_alone,
        ) from None
    except KafkaError as error:
        raise ClientError(f"{where} cannot be read: {error.message}") from None
    except Exception as error:  # the C codec raises many exception types
        raise ClientError(f"{where} cannot be read: {error}") from error


def _named(topic: str, partition: int, header: BatchHeader) -> str:
    return f"the batch at offset {header.base_offset} of {topic}-{partition}"


def _record(topic: str, partition: int, header: BatchHeader, record: DefaultRecord) -> ConsumedRecord:
    return ConsumedRecord(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        transactional=header.is_transactional,
        control=_control(record.key) if header.is_control else None,
    )


def _control(key: bytes | None) -> str:
    if key is None or len(key) < _CONTROL_KEY.size:
        return "UNKNOWN"
    _, number = _CONTROL_KEY.unpack_from(key)
    return ControlType(number).name if number in set(ControlType) else f"TYPE_{number}"


def is_abort_marker(header: BatchHeader, records: Sequence[ConsumedRecord]) -> bool:
    return header.is_control and bool(records) and records[0].control == ControlType.ABORT.name


def encode_batch(
    records: Sequence[NewRecord],
    now_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytes:
    """Encode one batch for a Produce request. ``records`` must not be empty."""
    timestamps = [now_ms if record.timestamp_ms is None else record.timestamp_ms for record in records]
    base_ms = timestamps[0]
    payload = b"".join(
        _encode_record(record, delta, timestamp - base_ms)
        for delta, (record, timestamp) in enumerate(zip(records, timestamps, strict=True))
    )
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_BIT if is_transactional else 0,
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(timestamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return bytes(pack_batch(header, payload))


def _encode_record(record: NewRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    parts = [b"\0", zigzag(timestamp_delta), zigzag(offset_delta), _field(record.key), _field(record.value)]
    parts.append(zigzag(len(record.headers)))
    for name, value in record.headers:
        raw = name.encode()
        parts += [zigzag(len(raw)), raw, _field(value)]
    body = b"".join(parts)
    return zigzag(len(body)) + body


def _field(value: bytes | None) -> bytes:
    return _NULL if value is None else zigzag(len(value)) + value


def encoded_size_bytes(record: NewRecord) -> int:
    """Return the approximate size of a record in a batch, in bytes."""
    return 32 + len(record.key or b"") + len(record.value or b"") + sum(16 + len(k) + len(v or b"") for k, v in record.headers)
