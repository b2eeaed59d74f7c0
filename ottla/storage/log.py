"""A partition's log: segments, producer state, offsets (org.apache.kafka.storage.internals.log.UnifiedLog).

One append is one synchronous stretch: checks, file, indexes, producer state, last stable offset. A log has no
directory until its first append.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from contextlib import suppress

import msgspec

from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import NO_UUID, Buffer
from ottla.protocol.records import NO_TIMESTAMP, BatchHeader, EndTxnMarker, assign, build_marker, read_header, stamp_append_time
from ottla.storage import snapshot
from ottla.storage.checkpoints import LeaderEpochs, write_partition_metadata
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged, Filesystem
from ottla.storage.invariants import check_log
from ottla.storage.owed_renames import OwedRenames
from ottla.storage.producer_state import ProducerState
from ottla.storage.retention import expired_count
from ottla.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, Segment
from ottla.storage.steps import Steps, run
from ottla.storage.txn_index import AbortedTxn

FILE_CHECK_MS = 1_000
"""How long an append may go on without a look whether the file is still there, and as long as it should be."""

SNAPSHOTS_KEPT = 2
"""Snapshots of the newest segments that are kept at least, besides the one at the log end."""


class Appended(msgspec.Struct, gc=False, frozen=True):
    """Where a batch stands. ``log_append_time_ms`` is -1 where the topic keeps the client's timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    is_duplicate: bool = False


class Log:
    """One partition. Raises `KafkaError` for what a client may see, OSError when the disk refuses."""

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
        self.recovery_point = 0
        self.recovery_point_checkpoint = 0
        """What the checkpoint file has: after a crash recovery begins there, with the snapshot of that offset."""
        self.first_dirty_offset = 0
        self.is_failed = False
        self.is_deleted = False
        """Whether its topic is gone. Its files make room for those of a topic of the same name."""
        self.renames = OwedRenames()
        # Why nothing is read or written before the next start, which looks at the files anew.
        self.offline_reason: str | None = None
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
        """First offset that is not decided yet, at most the high watermark."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        return sum(s.size_bytes for s in self.segments)

    # appending

    def append_as_leader(
        self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int, *, implicit_add: bool = False
    ) -> Appended:
        """Append a client's batch that passed `protocol.records.check_produced`; patches it in place.

        A retry of one of the last five batches is answered with where the first stands.
        """
        self._check_sound()
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
        """Append a batch of the broker's own (coordinators, cluster metadata): no sequence, but an epoch to check."""
        header = read_header(batch)
        self._check_size(len(batch))
        if header.producer_id >= 0:
            self.producers.check_epoch(header)
        return self._append(batch, header, now_ms)

    def takes(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes is small enough."""
        return size <= self.config.max_message_bytes and size <= self.config.segment_bytes

    def _check_size(self, size: int) -> None:
        config = self.config
        if size > config.max_message_bytes:
            raise KafkaError(Code.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, at most {config.max_message_bytes} are taken")
        if size > config.segment_bytes:
            raise KafkaError(Code.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes for segments of {config.segment_bytes}")

    def _append(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int) -> Appended:
        if header.producer_id >= 0:
            known = self.producers.entries.get(header.producer_id)
            assert known is None or header.producer_epoch >= known.epoch, f"{self.name}: {header} after epoch {known.epoch}"
        append_time = self.config.is_append_time
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = now_ms if append_time else header.max_timestamp_ms
        segment = self._segment_for(len(batch), last_offset, max_timestamp_ms, now_ms)
        assign(batch, base_offset, self.leader_epoch)
        if append_time:
            stamp_append_time(batch, now_ms)
        if self.leader_epoch > self.epochs.latest:
            self.epochs.assign(self.leader_epoch, base_offset)
        self._write(segment, batch, last_offset, max_timestamp_ms)
        if header.producer_id >= 0:
            self.producers.apply_data(header, base_offset, last_offset, max_timestamp_ms, now_ms)
        self._advance(last_offset + 1)
        return Appended(base_offset, last_offset, now_ms if append_time else NO_TIMESTAMP)

    def append_marker(self, marker: EndTxnMarker, now_ms: int, transaction_version: int) -> Appended:
        """Append the control batch that ends a transaction here, and its aborted-transaction entry.

        Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker from the past, and MESSAGE_TOO_LARGE
        as for any batch. Raises OSError with nothing changed where the disk refuses: the marker may be sent again.
        """
        batch = build_marker(marker, now_ms)
        self._check_size(len(batch))
        self.producers.check_marker(marker, transaction_version)
        known = self.producers.entries.get(marker.producer_id)
        if known is not None:
            assert marker.producer_epoch >= known.epoch, f"{self.name}: {marker} after epoch {known.epoch}"
            assert marker.coordinator_epoch >= known.coordinator_epoch, f"{self.name}: {marker} after {known.coordinator_epoch}"
        offset = self.log_end_offset
        segment = self._segment_for(len(batch), offset, now_ms, now_ms)
        assign(batch, offset, self.leader_epoch)
        if self.leader_epoch > self.epochs.latest:
            self.epochs.assign(self.leader_epoch, offset)
        completed = self.producers.completed_by(marker, offset)
        assert completed is None or completed.first_offset <= offset, f"{self.name}: {marker} at {offset} for {completed}"
        if completed is None or not completed.is_aborted:
            self._write(segment, batch, offset, now_ms)
        else:
            lso = self.producers.last_stable_offset_after(completed)
            # The entry comes first: an entry without a marker is taken back if the disk refuses the marker, and is made
            # anew by a start after a crash. A marker without its entry would show aborted records (KAFKA-7866).
            segment.txn_index.append(AbortedTxn(completed.producer_id, completed.first_offset, offset, lso))
            try:
                self._write(segment, batch, offset, now_ms)
            except OSError:
                segment.txn_index.take_back()
                raise
        self.producers.apply_marker(marker, now_ms)
        self._advance(offset + 1)
        return Appended(offset, offset, now_ms)

    def _segment_for(self, size: int, last_offset: int, timestamp_ms: int, now_ms: int) -> Segment:
        self._check_sound()
        if abs(now_ms - self._checked_ms) >= FILE_CHECK_MS:
            self._checked_ms = now_ms
            for newest in self.segments[-1:]:
                newest.log.check()
        if not self.segments:
            self._create(now_ms)
        elif self.active.should_roll(size, last_offset, timestamp_ms, now_ms, self.config):
            self.roll(now_ms)
        return self.segments[-1]

    def check_online(self) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        if self.offline_reason is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{self.name} is offline: {self.offline_reason}")

    def _check_sound(self) -> None:
        if self.offline_reason is not None:
            self.check_online()
        if self.is_failed:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{self.name} has failed")

    def check_directory(self) -> None:
        """Raises `Damaged` where what is not a directory is in its place: files are never written behind a link."""
        if self.fs.is_dir(self.directory) is False:
            raise Damaged(self.directory, "a link or a file is in the place of a directory; move the directory itself there")

    def _create(self, now_ms: int) -> None:
        """Make the directory. Raises FileExistsError where an earlier topic's files could not be moved out of it."""
        self.check_directory()
        if any(name.endswith((LOG_SUFFIX, snapshot.SUFFIX)) for name in self.fs.list_dir(self.directory)):
            raise FileExistsError(errno.EEXIST, f"{self.directory} holds the files of an earlier topic; move it away")
        self.fs.make_dir(self.directory)
        if self.topic_id != NO_UUID:
            write_partition_metadata(self.fs, self.directory, self.topic_id)
        self.segments.append(Segment(self.fs, self.directory, self.log_end_offset, now_ms))

    def _write(self, segment: Segment, batch: Buffer, last_offset: int, timestamp_ms: int) -> None:
        segment.append(batch, last_offset, timestamp_ms, self.config.index_interval_bytes)

    def _advance(self, log_end_offset: int) -> None:
        # One replica: what is in the log is committed. With several, followers' fetches move the high watermark.
        assert log_end_offset > self.log_end_offset >= self.log_start_offset, f"{self.name}: {log_end_offset} is no new end"
        self.log_end_offset = log_end_offset
        self.high_watermark = log_end_offset
        if CHECKED.whole_states:
            check_log(self)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end; a snapshot at its base makes recovery start there.

        Raises OSError with the old segment still active.
        """
        self.active.flush_indexes()
        snapshot.write(self.fs, self.directory, self.producers, self.log_end_offset)
        following = Segment(self.fs, self.directory, self.log_end_offset, now_ms)
        # An empty file is what tells a start where the log ends once retention has taken all other segments.
        following.log.append(b"")
        self.segments.append(following)
        self._drop_old_snapshots()

    def _drop_old_snapshots(self) -> None:
        # Recovery without one at its beginning reads the whole log, and finds only the last batch of what was compacted.
        at = min(self.segment_at(self.recovery_point_checkpoint), max(len(self.segments) - SNAPSHOTS_KEPT, 0))
        wanted = {s.base_offset for s in self.segments[at:]} | {self.log_end_offset}
        # One snapshot too many does no harm: the next roll tries again.
        with suppress(OSError):
            for offset in snapshot.offsets(self.fs, self.directory):
                if offset not in wanted:
                    self.fs.unlink(snapshot.path_of(self.directory, offset))

    # removing

    def segment_at(self, offset: int) -> int:
        """Index of the segment that holds ``offset``."""
        return max(bisect_right(self.segments, offset, key=lambda s: s.base_offset) - 1, 0)

    def aborted_from(self, at: int, start: int, upper_bound: int) -> list[AbortedTxn]:
        """Aborted transactions that touch [start, upper_bound), looked for from segment ``at`` on (collectAbortedTransactions)."""
        entries: list[AbortedTxn] = []
        for segment in self.segments[at:]:
            if segment.txn_index.collect(start, upper_bound, entries):
                break
        return entries

    def delete_records(self, before_offset: int) -> None:
        """Raise the log start offset; segments that lie wholly below go with the next retention, as in Kafka."""
        if before_offset > self.log_start_offset:
            self._start_at(before_offset)

    def _start_at(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.high_watermark, f"{self.name}: {offset} is no new start"
        self.log_start_offset = offset
        self.producers.drop_open_before(offset)
        self.epochs.truncate_start(offset)

    def delete_old(self, now_ms: int, at_most: int) -> list[str]:
        """Apply retention by time, by size and by log start to some segments; the renamed files, to be unlinked later.

        Raises OSError where the disk refuses a rename: the segments are out of service, and the next call goes on there.
        """
        self.renames.finish()
        if self.renames.has_retired:
            return self.renames.take_retired()
        if not self.segments:
            return []
        gone = 0
        if "delete" in self.config.cleanup_policy:
            gone = expired_count(self.segments, self.config, self.high_watermark, self.log_end_offset, now_ms)
        while gone < len(self.segments) - 1 and self.segments[gone + 1].base_offset <= self.log_start_offset:
            gone += 1
        if gone == 0:
            return []
        if gone == len(self.segments):
            if self.active.size_bytes == 0:
                gone -= 1
            else:
                try:
                    self.roll(now_ms)
                except OSError:
                    # A full disk has no room for a new segment, and the more need of what the others take up.
                    gone -= 1
        if gone == 0:
            return []
        gone = min(gone, at_most)
        doomed, self.segments = self.segments[:gone], self.segments[gone:]
        if self.segments[0].base_offset > self.log_start_offset:
            self._start_at(self.segments[0].base_offset)
        self._drop_old_snapshots()
        self.renames.add(doomed, DELETED_SUFFIX)
        self.renames.finish()
        return self.renames.take_retired()

    def replace(self, old: list[Segment], cleaned: Segment) -> None:
        """Put a cleaned segment, which is on the disk, in the place of neighbours, whose files `renames` retires.

        Once its log is called ``*.swap`` a start finishes this, before that a start forgets it (LocalLog.replaceSegments).
        In the same way here: where the disk refuses a rename before that, nothing has changed, and after it the cleaned
        segment is in service and the other renames follow later. Raises OSError in both cases.
        """
        cleaned.rename(SWAP_SUFFIX)
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [cleaned]
        self.renames.add(old, DELETED_SUFFIX)
        self.renames.add([cleaned], "")
        self.renames.finish()

    # end

    def settled(self) -> tuple[list[str], int]:
        """Files that no append touches any more and that may not be on the disk yet, and the recovery point once they are.

        `write_rebuilt` comes before: what is below the recovery point is trusted.
        """
        at = self.segment_at(self.recovery_point)
        done = self.segments[at:-1]
        if not done:
            return [], self.recovery_point
        return [f.path for s in done for f in s.files() if f.size], self.active.base_offset

    def write_rebuilt(self) -> Steps[None]:
        """Write what a start has made anew and the disk had no room for. Raises OSError, and may be called again.

        The files of a segment below the recovery point are trusted as soon as it has a time index again. So its aborted
        transactions are on the disk before.
        """
        self.epochs.flush()
        for segment in [segment for segment in self.segments if segment.is_behind]:
            if segment not in self.segments:
                # Compaction or retention has taken it meanwhile.
                continue
            segment.txn_index.flush()
            if segment is not self.active:
                if segment.txn_index.stored:
                    yield segment.sync_transactions
                segment.flush_indexes()
            yield None

    def flush(self) -> None:
        """Bring every file up to date and to the disk; moves the recovery point."""
        run(self.write_rebuilt())
        for segment in self.segments[self.segment_at(self.recovery_point) :]:
            segment.flush_indexes()
            segment.sync()
        self.recovery_point = self.log_end_offset

    def close(self) -> None:
        """A clean end: snapshot at the log end, indexes written, everything synced. Raises OSError with all descriptors closed."""
        if not self.segments:
            return
        try:
            if not self.is_failed and not self.is_offline:
                self.active.log.check()
                snapshot.write(self.fs, self.directory, self.producers, self.log_end_offset)
                self._drop_old_snapshots()
                self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptors and write nothing."""
        for segment in self.segments:
            segment.close()
