"""Reads from a log: batches for Fetch with the list of aborted transactions, and look-ups by timestamp for ListOffsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NotRequired, TypedDict

import msgspec
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import RecordStream, RecordTooLarge, plain
from ottla.protocol.records import TIMESTAMP_TYPE_BIT, BatchHeader, Record, read_records
from ottla.protocol.steps import Pace, next_turn, run
from ottla.storage.log import Log
from ottla.storage.segment import LOOKUP_BYTES, Segment
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.unchecked import CHECKED_BATCHES
from ottla.storage.walk import DamagedBatch, SoundBatches

MAX_RECORD_BYTES = 64 << 20
"""Size in bytes of the largest record that `records_of` reads."""
SMALL_BYTES = 1 << 20
"""Maximum size in bytes of an uncompressed batch that `records_of` decodes as a whole."""
BATCH_WORK = 2
WORK_BYTES_SHIFT = 14
"""Reading a batch without decoding it counts as `BATCH_WORK` units of work (`Pace`), and one unit for each 16 KiB."""


class Slice(msgspec.Struct, gc=False):
    """Batches, beginning with the batch that contains the fetch offset. ``aborted`` is None for read_uncommitted.

    The last batch may be cut off by the size limit of the read, as in Kafka. ``has_more``: the read stopped before its bound and
    its size limit, because the segment ended, or the next batches are damaged or not checked yet; another read can continue.
    """

    data: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTxn] | None = None
    has_more: bool = False
    checked_batches: int = 0
    """Number of batches written by an earlier process that this read has checked."""


class ReadOptions(TypedDict):
    """Keyword arguments of `read`."""

    committed: bool
    min_one_batch: bool
    to_end: NotRequired[bool]
    most_checks: NotRequired[int]


EMPTY = b""


def read(
    log: Log,
    fetch_offset: int,
    max_bytes: int,
    *,
    committed: bool,
    min_one_batch: bool = True,
    to_end: bool = False,
    most_checks: int = CHECKED_BATCHES,
) -> Slice:
    """Read batches from ``fetch_offset`` up to the high watermark or, with ``committed``, up to the last stable offset.

    With ``to_end``, for a follower, read up to the log end (FetchIsolation).

    Reads at most ``max_bytes`` of one segment. With ``min_one_batch`` the first batch is read whole even if it is larger. The bound
    is read once, for the data and for the aborted transactions (KAFKA-9807). Checks at most ``most_checks`` batches that an earlier
    process wrote, and ends the read after them.

    Raises OFFSET_OUT_OF_RANGE, and `DamagedBatch` if the log is damaged at ``fetch_offset``. Batches before damage are returned
    without the damaged bytes; Apache Kafka returns damaged bytes as well.
    """
    lso = log.last_stable_offset
    if fetch_offset < log.log_start_offset or fetch_offset > log.log_end_offset:
        raise KafkaError(
            Code.OFFSET_OUT_OF_RANGE,
            f"offset {fetch_offset} is out of range: the log has {log.log_start_offset} to {log.log_end_offset}",
        )
    bound = lso if committed else log.log_end_offset if to_end else log.high_watermark
    fetched = Slice(EMPTY, log.high_watermark, lso, log.log_start_offset, [] if committed else None)
    if fetch_offset >= bound:
        return fetched
    at = log.segment_at(fetch_offset)
    while at < len(log.segments):
        segment = log.segments[at]
        start = segment.position_of(fetch_offset)
        if start is not None:
            position, header = start
            limit = log.end_of(at)
            if header.next_offset > limit:
                wrong = f"offset {header.last_offset} before {limit}"
                damage = DamagedBatch(segment.log.path, position, fetch_offset, wrong)
                segment.note_damage(damage)
                raise damage
            if header.base_offset >= bound:
                break
            end = _end_position(log, at, bound)
            size = min(max_bytes, end - position)
            if size < header.size_bytes:
                if not min_one_batch:
                    break
                size = header.size_bytes
            offsets = range(header.base_offset, limit)
            readable, fetched.checked_batches = segment.readable_bytes(position, size, offsets, most_checks)
            fetched.data = segment.log.read(readable, position)
            fetched.has_more = readable < size or (at + 1 < len(log.segments) and bound >= limit)
            if committed:
                fetched.aborted = _aborted(log, at, fetch_offset, position + readable, bound)
            break
        at += 1
    return fetched


def _end_position(log: Log, at: int, bound: int) -> int:
    """File position in segment ``at`` of the first batch at or above ``bound``; the segment's size if it has no such batch.

    If the log is damaged before that batch, the position of the damage.
    """
    segment = log.segments[at]
    if bound >= log.log_end_offset or (at + 1 < len(log.segments) and log.segments[at + 1].base_offset <= bound):
        return segment.size_bytes
    try:
        end = segment.position_of(bound)
    except DamagedBatch as damage:
        return damage.position
    return end[0] if end is not None else segment.size_bytes


def _aborted(log: Log, at: int, fetch_offset: int, end_position: int, bound: int) -> list[AbortedTxn]:
    upper = log.segments[at].offset_index.offset_at_or_after(end_position)
    if upper is None:
        upper = log.segments[at + 1].base_offset if at + 1 < len(log.segments) else log.log_end_offset
    upper = min(upper, bound)
    return log.aborted_from(at, fetch_offset, upper)


class TimestampedOffset(msgspec.Struct, gc=False, frozen=True):
    timestamp_ms: int
    offset: int
    leader_epoch: int


async def offset_for_timestamp(log: Log, timestamp_ms: int, bound: int) -> TimestampedOffset | None:
    """The first record below offset ``bound`` whose timestamp is ``timestamp_ms`` or later. Large batches are decompressed in
    pieces.

    Raises CORRUPT_MESSAGE for a batch that cannot be read or is damaged, `RecordTooLarge`, UNKNOWN_TOPIC_OR_PARTITION if the log is
    deleted between two steps, and KAFKA_STORAGE_ERROR if it goes offline.
    """
    pace, reached = Pace(), log.log_start_offset
    while reached < bound and log.segments:
        # Find the segment by offset, because retention and compaction change the list of segments between two steps.
        at = log.segment_at(reached)
        segment = log.segments[at]
        limit = log.end_of(at)
        # A truncation between two steps may leave a log that ends below the bound.
        following = limit if at + 1 < len(log.segments) else bound
        if segment.max_timestamp_ms < timestamp_ms:
            reached = following
        else:
            answer = await _first_in(log, segment, timestamp_ms, range(reached, bound), limit, pace)
            if answer is None:
                reached = following
            elif isinstance(answer, TimestampedOffset):
                return answer
            else:
                reached = answer
        if pace.spend(1):
            await next_turn()
            _check_there(log)
    return None


async def _first_in(
    log: Log, segment: Segment, timestamp_ms: int, offsets: range, limit: int, pace: Pace, *, also_deleted: bool = False
) -> TimestampedOffset | int | None:
    """The first record of a segment at or after a timestamp; None if the segment, which ends at ``limit``, has no such record.

    ``also_deleted``: the record may be below the log start offset. If the segment is deleted, replaced or truncated between two
    steps, returns the offset up to which the segment has no such record.
    """
    reached, truncations = offsets.start, log.truncations
    position = segment.offset_index.lookup(max(segment.offset_below(timestamp_ms), reached))
    for _, header, raw in segment.scan(position, piece_bytes=LOOKUP_BYTES, limit=limit):
        if header.base_offset >= offsets.stop:
            return None
        has_paused = False
        lowest = 0 if also_deleted else log.log_start_offset
        if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= max(reached, lowest):
            answer = await _first_at(log, raw, header, timestamp_ms, offsets.stop, pace, also_deleted=also_deleted)
            if answer is not None:
                return answer
            has_paused = True
        reached = max(reached, header.next_offset)
        if pace.spend(BATCH_WORK + (len(raw) >> WORK_BYTES_SHIFT)):
            await next_turn()
            has_paused = True
        if has_paused and (not _stands(log, segment) or log.truncations != truncations):
            return reached
    return None


def _check_there(log: Log) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION if the topic was deleted between two steps, and KAFKA_STORAGE_ERROR if the log went
    offline."""
    if log.is_deleted:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    log.check_online()


def _stands(log: Log, segment: Segment) -> bool:
    """Whether the segment is still in the log, so that its files may be read. Raises the errors of `_check_there`."""
    _check_there(log)
    return bool(log.segments) and log.segments[log.segment_at(segment.base_offset)] is segment


async def _first_at(
    log: Log, batch: Buffer, header: BatchHeader, timestamp_ms: int, bound: int, pace: Pace, *, also_deleted: bool
) -> TimestampedOffset | None:
    """The first record of a batch at or after a timestamp, up to ``bound``, exclusive.

    The search begins at the log start offset, or with ``also_deleted`` at the start of the batch.
    """

    def lowest() -> int:
        return 0 if also_deleted else log.log_start_offset

    if header.attributes & TIMESTAMP_TYPE_BIT and lowest() <= header.base_offset and header.record_count > header.last_offset_delta:
        # All records have the batch's append time as timestamp, and compaction has removed no record: the first record is the
        # result.
        return TimestampedOffset(header.max_timestamp_ms, header.base_offset, header.leader_epoch)
    stream = RecordStream(batch, header, max_record_bytes=log.config.max_decompressed_message_bytes)
    try:
        while True:
            records, count = await stream.next_records()
            if not count:
                return None
            for record in await _decoded(header, records, count):
                if record.timestamp >= timestamp_ms and lowest() <= record.offset < bound:
                    return TimestampedOffset(record.timestamp, record.offset, header.leader_epoch)
            if pace.spend(count):
                await next_turn()
    except RecordTooLarge:
        raise
    except KafkaError as error:
        raise KafkaError(Code.CORRUPT_MESSAGE, error.message) from error
    except Exception as error:  # catch all: aiokafka's C codec raises many exception types
        raise KafkaError(Code.CORRUPT_MESSAGE, f"a batch cannot be decoded: {error}") from error


async def _decoded(header: BatchHeader, records: bytes, count: int) -> list[DefaultRecord]:
    """Decode ``count`` whole records of a batch. Header keys need not be UTF-8."""
    try:
        return list(DefaultRecordBatch(plain(header, records, count)))
    except UnicodeDecodeError:
        from ottla.protocol.header_keys import with_readable_headers

        bare = await with_readable_headers(records, keeps_headers=False)
        return list(DefaultRecordBatch(plain(header, bare, count)))


async def offset_of_max_timestamp(log: Log, bound: int) -> TimestampedOffset | None:
    """The first record that has the largest timestamp of the log; None if that record is not below ``bound``.

    As in Kafka, the record may be below the log start offset as long as its segment exists, and its timestamp may be unset.
    """
    best: Segment | None = None
    for segment in log.segments:
        if segment.size_bytes and (best is None or segment.max_timestamp_ms > best.max_timestamp_ms):
            best = segment
    if best is None:
        return None
    offsets, limit = range(best.base_offset, log.log_end_offset), log.end_of(log.segment_at(best.base_offset))
    found = await _first_in(log, best, best.max_timestamp_ms, offsets, limit, Pace(), also_deleted=True)
    if isinstance(found, int):
        # The segment was deleted, replaced or truncated between two steps: search the log instead.
        found = await offset_for_timestamp(log, best.max_timestamp_ms, log.log_end_offset)
    return found if found is not None and found.offset < bound else None


def all_batches(log: Log) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield header and bytes of every batch of a log, for a starting broker that reads the log once and trusts it afterwards.

    Raises `Damaged` if a batch cannot be read, has a wrong CRC, or has an offset below the batch before it.
    """
    next_offset = 0
    for segment in log.segments:
        sound = SoundBatches(segment.log, max(segment.base_offset, next_offset))
        for _, header, raw in sound:
            yield header, raw
        if not sound.is_whole:
            raise sound.damage()
        next_offset = sound.next_offset


def leader_epoch_at_start(log: Log) -> int:
    return log.epochs.epoch_for(log.log_start_offset)


def records_of(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """Yield the records of a stored batch. Keeps a piece of the batch and one record in memory, and never lets other work run.

    Raises CORRUPT_MESSAGE for a batch that cannot be read, and for a record larger than `MAX_RECORD_BYTES`.
    """
    if not header.compression and len(batch) <= SMALL_BYTES:
        try:
            records = read_records(batch)
        except KafkaError:
            # Try again with `RecordStream`: it can read header keys that are not UTF-8, and reports any other fault.
            pass
        else:
            yield from records
            return
    stream = RecordStream(batch, header)
    while decoded := run(next_decoded(stream, header, MAX_RECORD_BYTES)):
        if stream.large_bytes > MAX_RECORD_BYTES:
            raise KafkaError(
                Code.CORRUPT_MESSAGE, f"a record has {stream.large_bytes} bytes; at most {MAX_RECORD_BYTES} can be decoded"
            )
        yield from decoded


async def next_decoded(stream: RecordStream, header: BatchHeader, max_record_bytes: int) -> list[Record]:
    """The next records of a batch, decoded; empty at its end. Raises CORRUPT_MESSAGE for a batch that cannot be read.

    A record larger than ``max_record_bytes`` is returned alone, as a placeholder; `RecordStream.large_bytes` is then its size.
    """
    try:
        records, count = await stream.next_whole()
        if not count and stream.large_bytes > max_record_bytes:
            records, count = await stream.next_records(1)
        elif not count and stream.large_bytes:
            records, count = (await _whole(stream)), 1
        return [Record(r.offset, r.timestamp, r.key, r.value) for r in (await _decoded(header, records, count))]
    except Exception as error:  # catch all: aiokafka's C codec raises many exception types
        raise KafkaError(Code.CORRUPT_MESSAGE, f"a batch cannot be decoded: {error}") from error


async def _whole(stream: RecordStream) -> bytes:
    record = bytearray()
    while len(record) < stream.large_bytes:
        record += await stream.take(stream.large_bytes - len(record))
    return bytes(record)
