"""A partition's log: segments, producer state, offsets (org.apache.kafka.storage.internals.log.UnifiedLog).

One append is one synchronous function call: it checks the batch, writes the file and the indexes, and changes the producer state.
An append moves only the log end. The code that knows the other replicas (`broker.partitions.partitions.Partition`) moves the high
watermark, and with it the last stable offset. A log has no directory until its first append.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections import deque
from contextlib import suppress

import msgspec

from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import NO_UUID, Buffer
from ottla.protocol.records import NO_TIMESTAMP, BatchHeader, EndTxnMarker, assign, build_marker, read_header, stamp_append_time
from ottla.protocol.steps import in_thread, next_turn, run
from ottla.storage import snapshot
from ottla.storage.checkpoints import LeaderEpochs, write_partition_metadata
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged, Filesystem
from ottla.storage.invariants import check_log
from ottla.storage.pending_renames import OwedRenames
from ottla.storage.producer_state import CompletedTxn, ProducerState
from ottla.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, Segment
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.walk import DamagedBatch

FILE_CHECK_MS = 1_000
"""Interval, in ms, after which the next append checks that the file still exists and has the right length."""

SNAPSHOTS_KEPT = 2
"""Minimum number of producer snapshots that are kept for the newest segments, besides the snapshot at the log end."""


class Appended(msgspec.Struct, gc=False, frozen=True):
    """The offsets of an appended batch. ``log_append_time_ms`` is -1 if the topic keeps the client's timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    is_duplicate: bool = False


class Log:
    """The log of one partition. Its methods raise `KafkaError` for errors that a client sees, and OSError for errors of the file
    system."""

    def __init__(
        self, fs: Filesystem, directory: str, topic: str, partition: int, config: LogConfig, topic_id: bytes = NO_UUID
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.name = f"{topic}-{partition}"
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = 0
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs(fs, directory)
        self.producers = ProducerState()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        """All records below this offset are committed. Appends never move it; the code that knows the other replicas does."""
        self.unreplicated: deque[CompletedTxn] = deque()
        """Transactions whose marker may be at or above the high watermark, in the order of their markers. Such a marker may still
        be lost with this replica, so the transaction limits the last stable offset as if it were open
        (ProducerStateManager.unreplicatedTxns)."""
        self.recovery_point = 0
        self.recovery_point_checkpoint = 0
        """The recovery point in the checkpoint file. After a crash, recovery begins with the segment that contains this offset, and
        with the producer snapshot at that segment's base offset."""
        self.first_dirty_offset = 0
        self.is_failed = False
        """Whether appends are rejected until the next start, for example because a sync has failed or the topic was deleted."""
        self.is_deleted = False
        """Whether the log's topic was deleted. Then a new topic of the same name may use the directory's name."""
        self.renames = OwedRenames()
        self.truncations = 0
        """Number of truncations. Work in steps compares the number before and after a pause, because a truncated log reuses
        offsets."""
        # The reason that the log is neither read nor written until a starting broker checks its files; None for a log in service.
        self.offline_reason: str | None = None
        self.logged_damage: DamagedBatch | None = None
        """The newest `damage` about which the broker has written a log line."""
        self._checked_ms = 0

    def __repr__(self) -> str:
        return f"Log({self.name})"

    @property
    def is_offline(self) -> bool:
        return self.offline_reason is not None

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest transaction that is open or whose marker is not committed; at most the high watermark."""
        unstable = self.producers.first_unstable_offset
        high_watermark = self.high_watermark
        for completed in self.unreplicated:
            if completed.last_offset >= high_watermark and (unstable is None or completed.first_offset < unstable):
                unstable = completed.first_offset
        if unstable is None or unstable > high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        return sum(s.size_bytes for s in self.segments)

    @property
    def damage(self) -> DamagedBatch | None:
        """The damaged batch with the lowest offset that a reader has found in the current segments."""
        return next((segment.damage for segment in self.segments if segment.damage is not None), None)

    # appending batches

    def append_as_leader(
        self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int, *, implicit_add: bool = False
    ) -> Appended:
        """Append a client's batch that passed `protocol.records.check_produced`. Sets the offset and leader epoch in ``batch``.

        A retry of one of the producer's last five batches is not appended: the result has the offsets of the stored batch.
        """
        self.check_writable()
        if header.producer_id >= 0:
            duplicate = self.producers.find_duplicate(header)
            if duplicate is not None:
                time_ms = duplicate.timestamp_ms
                return Appended(duplicate.first_offset, duplicate.last_offset, time_ms, is_duplicate=True)
        self._check_size(len(batch))
        if header.producer_id >= 0:
            self.producers.check_data(header, implicit_add=implicit_add)
        return self._append(batch, header, now_ms)

    def append_own(self, batch: bytearray, now_ms: int) -> Appended:
        """Append a batch of a coordinator or of the metadata log. Such a batch has no sequence, but may have a producer epoch."""
        header = read_header(batch)
        self._check_size(len(batch))
        if header.producer_id >= 0:
            self.producers.check_epoch(header)
        return self._append(batch, header, now_ms)

    def accepts_size(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes is small enough for max.message.bytes and segment.bytes."""
        return size <= self.config.max_message_bytes and size <= self.config.segment_bytes

    def _check_size(self, size: int) -> None:
        config = self.config
        if size > config.max_message_bytes:
            raise KafkaError(
                Code.MESSAGE_TOO_LARGE,
                f"the batch has {size} bytes; at most {config.max_message_bytes} are allowed (max.message.bytes)",
            )
        if size > config.segment_bytes:
            raise KafkaError(
                Code.RECORD_LIST_TOO_LARGE,
                f"the batch has {size} bytes; a segment has at most {config.segment_bytes} (segment.bytes)",
            )

    def _append(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int) -> Appended:
        if header.producer_id >= 0:
            known = self.producers.entries.get(header.producer_id)
            assert known is None or header.producer_epoch >= known.epoch, f"{self.name}: {header} after epoch {known.epoch}"
        append_time = self.config.is_append_time
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = now_ms if append_time else header.max_timestamp_ms
        segment = self.segment_for(len(batch), last_offset, max_timestamp_ms, now_ms)
        assign(batch, base_offset, self.leader_epoch)
        if append_time:
            stamp_append_time(batch, now_ms)
        if self.leader_epoch > self.epochs.latest:
            self.epochs.assign(self.leader_epoch, base_offset)
        self.write(segment, batch, last_offset, max_timestamp_ms)
        if header.producer_id >= 0:
            self.producers.apply_data(header, base_offset, last_offset, max_timestamp_ms, now_ms)
        self.advance(last_offset + 1)
        return Appended(base_offset, last_offset, now_ms if append_time else NO_TIMESTAMP)

    def append_marker(self, marker: EndTxnMarker, now_ms: int, transaction_version: int) -> Appended:
        """Append the control batch that ends a transaction in this partition. An abort also adds to the transaction index.

        Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker of an older epoch, and MESSAGE_TOO_LARGE as for
        any batch. If the write fails, raises OSError and changes nothing; the marker may then be sent again.
        """
        batch = build_marker(marker, now_ms)
        self._check_size(len(batch))
        self.producers.check_marker(marker, transaction_version)
        known = self.producers.entries.get(marker.producer_id)
        if known is not None:
            assert marker.producer_epoch >= known.epoch, f"{self.name}: {marker} after epoch {known.epoch}"
            assert marker.coordinator_epoch >= known.coordinator_epoch, f"{self.name}: {marker} after {known.coordinator_epoch}"
        offset = self.log_end_offset
        segment = self.segment_for(len(batch), offset, now_ms, now_ms)
        assign(batch, offset, self.leader_epoch)
        if self.leader_epoch > self.epochs.latest:
            self.epochs.assign(self.leader_epoch, offset)
        self.write_marker(segment, batch, marker, offset, now_ms)
        return Appended(offset, offset, now_ms)

    def write_marker(self, segment: Segment, batch: Buffer, marker: EndTxnMarker, offset: int, timestamp_ms: int) -> None:
        """Write a marker's control batch, which already has its offset, and end the transaction."""
        completed = self.producers.completed_by(marker, offset)
        assert completed is None or completed.first_offset <= offset, f"{self.name}: {marker} at {offset} for {completed}"
        if completed is None or not completed.is_aborted:
            self.write(segment, batch, offset, timestamp_ms)
        else:
            lso = self.producers.last_stable_offset_after(completed)
            # The index entry is written before the marker. If writing the marker fails, the entry is removed, and after a crash
            # recovery rebuilds the index. Without the entry, consumers would read aborted records (KAFKA-7866).
            segment.txn_index.append(AbortedTxn(completed.producer_id, completed.first_offset, offset, lso))
            try:
                self.write(segment, batch, offset, timestamp_ms)
            except OSError:
                segment.txn_index.take_back()
                raise
        self.producers.apply_marker(marker, timestamp_ms)
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[0].last_offset < self.high_watermark:
            unreplicated.popleft()
        if completed is not None:
            unreplicated.append(completed)
        self.advance(offset + 1)

    def segment_for(self, size: int, last_offset: int, timestamp_ms: int, now_ms: int) -> Segment:
        self.check_writable()
        segments = self.segments
        if not segments:
            self._create(now_ms)
            return self.segments[-1]
        newest = segments[-1]
        if abs(now_ms - self._checked_ms) >= FILE_CHECK_MS:
            self._checked_ms = now_ms
            newest.log.check()
        if not newest.should_roll(size, last_offset, timestamp_ms, now_ms, self.config):
            return newest
        self.roll(now_ms)
        return self.segments[-1]

    def check_online(self) -> None:
        """Raises KAFKA_STORAGE_ERROR if the log is offline."""
        if self.offline_reason is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{self.name} is offline: {self.offline_reason}")

    def check_writable(self) -> None:
        """Raises KAFKA_STORAGE_ERROR if the log is offline, or if a sync of its directory has failed."""
        if self.offline_reason is not None:
            self.check_online()
        if self.is_failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"a sync of {self.name} has failed; restart the broker")

    def check_directory(self) -> None:
        """Raise `Damaged` if the path is a file or a symbolic link: the broker never writes through a link."""
        if self.fs.is_dir(self.directory) is False:
            raise Damaged(self.directory, "this is a link or a file instead of a directory; move the directory itself there")

    def _create(self, now_ms: int) -> None:
        """Create the directory and the first segment. Raises FileExistsError if the directory has files of an earlier topic."""
        self.check_directory()
        if any(name.endswith((LOG_SUFFIX, snapshot.SUFFIX)) for name in self.fs.list_dir(self.directory)):
            raise FileExistsError(errno.EEXIST, f"{self.directory} has the files of an earlier topic; move it away")
        self.fs.make_dir(self.directory)
        if self.topic_id != NO_UUID:
            write_partition_metadata(self.fs, self.directory, self.topic_id)
        self.segments.append(Segment(self.fs, self.directory, self.log_end_offset, now_ms))

    def write(self, segment: Segment, batch: Buffer, last_offset: int, timestamp_ms: int) -> None:
        segment.append(batch, last_offset, timestamp_ms, self.config.index_interval_bytes)

    def advance(self, log_end_offset: int) -> None:
        assert log_end_offset > self.log_end_offset >= self.log_start_offset, f"{self.name}: {log_end_offset} is no new end"
        self.log_end_offset = log_end_offset
        if CHECKED.whole_states:
            check_log(self)

    def move_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to ``offset``. The caller knows that every in-sync replica has all records below it."""
        assert self.high_watermark <= offset <= self.log_end_offset, f"{self.name}: {offset} is no new high watermark"
        self.high_watermark = offset
        if CHECKED.whole_states:
            check_log(self)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end, with a producer snapshot at its base offset, from which recovery can start.

        If it raises OSError, the old segment stays active.
        """
        self.active.flush_indexes()
        snapshot.write(self.fs, self.directory, self.producers, self.log_end_offset)
        following = Segment(self.fs, self.directory, self.log_end_offset, now_ms)
        # Create the file at once: after retention has removed all other segments, its name is the only record of the log end.
        following.log.append(b"")
        self.segments.append(following)
        self.drop_old_snapshots()

    def drop_old_snapshots(self) -> None:
        # Keep the snapshot at which recovery would begin. Otherwise recovery would read the whole log, and find only the last batch
        # of each producer if the log is compacted.
        at = min(self.segment_at(self.recovery_point_checkpoint), max(len(self.segments) - SNAPSHOTS_KEPT, 0))
        wanted = {s.base_offset for s in self.segments[at:]} | {self.log_end_offset}
        # A snapshot that cannot be removed does no harm; the next roll tries again.
        with suppress(OSError):
            for offset in snapshot.offsets(self.fs, self.directory):
                if offset not in wanted:
                    self.fs.unlink(snapshot.path_of(self.directory, offset))

    # removing and replacing segments

    def segment_at(self, offset: int) -> int:
        """Index in `segments` of the segment that contains ``offset``; 0 for an offset before the first segment."""
        return max(bisect_right(self.segments, offset, key=lambda s: s.base_offset) - 1, 0)

    def end_of(self, at: int) -> int:
        """The end offset of segment ``at``: the base offset of the next segment, or the log end."""
        return self.segments[at + 1].base_offset if at + 1 < len(self.segments) else self.log_end_offset

    def aborted_from(self, at: int, start: int, upper_bound: int) -> list[AbortedTxn]:
        """Aborted transactions that overlap [start, upper_bound), from segment ``at`` on (collectAbortedTransactions)."""
        entries: list[AbortedTxn] = []
        for segment in self.segments[at:]:
            if segment.txn_index.collect(start, upper_bound, entries):
                break
        return entries

    def delete_records(self, before_offset: int) -> None:
        """Raise the log start offset. The next run of retention removes the segments that are wholly below it, as in Kafka."""
        if before_offset > self.log_start_offset:
            self.start_at(before_offset)

    def start_at(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.high_watermark, f"{self.name}: {offset} is no new start"
        self.log_start_offset = offset
        self.producers.drop_open_before(offset)
        self.epochs.truncate_start(offset)

    def replace(self, old: list[Segment], cleaned: Segment) -> None:
        """Replace the adjacent segments ``old`` with a cleaned segment that was synced (LocalLog.replaceSegments).

        The rename of the cleaned segment's log to ``*.swap`` commits the replacement: a starting broker that finds such a file
        finishes the replacement, and a crash before the rename leaves the old segments. Raises OSError if a rename fails. If that
        is the rename to ``*.swap``, nothing has changed. Otherwise the cleaned segment is in service, and `renames` retries the
        failed rename.
        """
        cleaned.rename(SWAP_SUFFIX)
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [cleaned]
        self.renames.add(old, DELETED_SUFFIX)
        self.renames.add([cleaned], "")
        self.renames.finish()

    # syncing and closing the log

    def closed_files_to_sync(self) -> tuple[list[str], int]:
        """Return the files of closed segments that may not be synced yet, and the recovery point after the caller has synced them.

        Call `write_rebuilt` first, because a starting broker trusts the files below the recovery point.
        """
        at = self.segment_at(self.recovery_point)
        done = self.segments[at:-1]
        if not done:
            return [], self.recovery_point
        return [f.path for s in done for f in s.files() if f.size], self.active.base_offset

    async def write_rebuilt(self) -> None:
        """Write the indexes and epochs that recovery rebuilt but could not write, for example because the disk was full.

        Raises OSError, and may then be called again. A starting broker trusts a segment below the recovery point as soon as the
        segment has a time index. So the index of aborted transactions is synced before the time index is written.
        """
        self.epochs.flush()
        for segment in [segment for segment in self.segments if segment.is_behind]:
            if segment not in self.segments:
                # Compaction or retention has removed the segment between two steps.
                continue
            segment.txn_index.flush()
            if segment is not self.active:
                if segment.txn_index.stored:
                    await in_thread(segment.sync_transactions)
                segment.flush_indexes()
            await next_turn()

    def flush(self) -> None:
        """Write all indexes, sync every file above the recovery point, and move the recovery point to the log end."""
        run(self.write_rebuilt())
        for segment in self.segments[self.segment_at(self.recovery_point) :]:
            segment.flush_indexes()
            segment.sync()
        self.recovery_point = self.log_end_offset

    def close(self) -> None:
        """Write a producer snapshot at the log end and all indexes, sync every file, and close the descriptors.

        All descriptors are closed even if this raises OSError. A log that has failed or is offline is only closed.
        """
        if not self.segments:
            return
        try:
            if not self.is_failed and not self.is_offline:
                self.active.log.check()
                snapshot.write(self.fs, self.directory, self.producers, self.log_end_offset)
                self.drop_old_snapshots()
                self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptors without writing anything."""
        for segment in self.segments:
            segment.close()
