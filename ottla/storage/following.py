"""Appends the batches that a follower has fetched, with the offsets and leader epochs that the leader gave them.

The leader has already checked epochs and sequences of producers, so the follower does not (UnifiedLog.appendAsFollower). The
producers' state, the transaction index and the leader epochs are updated as on the leader. Every batch is appended on its own, so
that segments end at the leader's offsets as long as both brokers have the same settings.
"""

from __future__ import annotations

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, batches, crc_is_valid
from ottla.storage.log import Log
from ottla.storage.truncation import truncate_fully_and_start_at
from ottla.storage.walk import MAX_RELATIVE_OFFSET


class UnexpectedOffset(Exception):
    """A leader's batch does not follow the log end. The follower must not continue (UnexpectedAppendOffsetException)."""


def append_as_follower(log: Log, records: Buffer, leader_epoch: int, now_ms: int) -> int:
    """Append the whole batches of a fetch response; returns their size in bytes. A last batch that is cut off is ignored.

    The first batch of a leader epoch above ``leader_epoch`` and all later batches are ignored as well, because a later leader wrote
    them (KAFKA-18723). Offsets may have gaps, which compaction left on the leader. All batches are checked before the first batch
    is written. Raises CORRUPT_MESSAGE for a wrong CRC or a leader epoch below the log's latest, `UnexpectedOffset`, and OSError.
    Batches that were appended before the error stay in the log.
    """
    view = memoryview(records)
    sound = _checked(log, view, leader_epoch)
    if not sound:
        return 0
    if sound[0][1].base_offset < log.log_end_offset == log.log_start_offset <= sound[0][1].last_offset:
        # This empty log begins at the leader's log start offset, which is inside the fetched batch. So the log must begin at the
        # batch's base offset.
        truncate_fully_and_start_at(log, sound[0][1].base_offset, now_ms)
    expected = log.log_end_offset
    for _, header in sound:
        if header.base_offset < expected:
            raise UnexpectedOffset(f"{log.name}: the batch has offset {header.base_offset}, but {expected} or later was expected")
        expected = header.next_offset
    size_bytes = 0
    for position, header in sound:
        _append(log, view[position : position + header.size_bytes], header, now_ms)
        size_bytes += header.size_bytes
    return size_bytes


def _checked(log: Log, records: memoryview, leader_epoch: int) -> list[tuple[int, BatchHeader]]:
    sound: list[tuple[int, BatchHeader]] = []
    latest = log.epochs.latest
    for position, header in batches(records):
        if header.magic != 2 or header.last_offset_delta < 0 or not crc_is_valid(records, header, position):
            raise KafkaError(Code.CORRUPT_MESSAGE, f"{log.name}: the leader's batch at offset {header.base_offset} is damaged")
        if header.leader_epoch > leader_epoch:
            break
        if header.leader_epoch < latest:
            after = f"leader epoch {header.leader_epoch} at offset {header.base_offset} follows leader epoch {latest}"
            raise KafkaError(Code.CORRUPT_MESSAGE, f"{log.name}: {after}")
        latest = header.leader_epoch
        sound.append((position, header))
    return sound


def _append(log: Log, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
    timestamp_ms = header.max_timestamp_ms
    if header.last_offset - log.log_end_offset > MAX_RELATIVE_OFFSET:
        # The batch's last offset is 2^31 or more above the log end, so no segment that begins at the log end can contain the batch.
        raise UnexpectedOffset(f"{log.name}: offset {header.base_offset} is too far after {log.log_end_offset} for a segment")
    segment = log.segment_for(len(batch), header.last_offset, timestamp_ms, now_ms)
    if header.leader_epoch > log.epochs.latest:
        log.epochs.assign(header.leader_epoch, header.base_offset)
    marker = read_marker(batch, header) if header.is_control and header.producer_id >= 0 else None
    if marker is not None:
        log.write_marker(segment, batch, marker, header.base_offset, timestamp_ms)
        return
    log.write(segment, batch, header.last_offset, timestamp_ms)
    if header.producer_id >= 0 and not header.is_control:
        log.producers.apply_data(header, header.base_offset, header.last_offset, timestamp_ms, now_ms)
    log.advance(header.next_offset)
