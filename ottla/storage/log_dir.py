"""A log directory: the lock, meta.properties, the checkpoints, and the logs in it (org.apache.kafka.storage LogManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from ottla.protocol.errors import KafkaError
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import Pace, in_thread, next_turn, run
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.background_sync import settle
from ottla.storage.checkpoint_writer import CheckpointWriter
from ottla.storage.checkpoints import (
    PARTITION_METADATA_FILE,
    read_partition_metadata,
    write_offsets,
    write_partition_metadata,
)
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Filesystem, described
from ottla.storage.growth import check_not_growing
from ottla.storage.identity import META_FILE, NOT_OURS, DirectoryError, check_not_a_clusters, check_not_kafkas
from ottla.storage.last_stop import ABORTED, CLEAN_FILE, LOG_STARTS, LastStop, clean_file, take_last_stop
from ottla.storage.log import Log
from ottla.storage.log_cleaner import Cleaned, Dirty, clean
from ottla.storage.names import DELETE_SUFFIX, DELETED_NAME, STRAY_SUFFIX, parse_directory_name
from ottla.storage.pending_deletes import Trash
from ottla.storage.recovery import RecoveryReport, open_log
from ottla.storage.replacement import finish_replacement
from ottla.storage.retention import delete_old
from ottla.storage.stray_directories import StrayDirectories
from ottla.storage.truncation import end_after, truncate_fully_and_start_at, truncate_to

LOCK_FILE = ".lock"

RETENTION_SEGMENTS_PER_STEP = 20
"""Number of segments that one step of retention deletes. A segment has four files, so a step renames at most 80."""


class LogDirectory:
    """The one log directory of a broker, with all of the broker's logs."""

    def __init__(self, fs: Filesystem, path: str, lock: object | None = None) -> None:
        """``lock`` is the directory's lock if an earlier `LogDirectory` kept it (`keeps_lock`)."""
        self.fs = fs
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.lock = lock
        self.keeps_lock = lock is not None
        """Whether `close`, `abandon` and a failed `acquire` leave the directory locked for its next `LogDirectory`."""
        self._is_acquired = False
        self._last_stop = LastStop()
        self.checkpoints = CheckpointWriter(fs, path, self.logs)
        self._is_loaded = False
        # New logs under whose names the checkpoints still contain the offsets of deleted logs.
        self._misnamed: list[Log] = []
        self.trash, self.strays = Trash(fs), StrayDirectories(fs, path)
        # Logs that this process has deleted and that the checkpoints may still contain.
        self._deleted: set[TopicPartition] = set()
        self.has_forgotten = False
        """Whether the checkpoints were written without the entries of deleted logs and are not synced yet. Before the broker
        acknowledges an append to a new log with a deleted log's name, it syncs the checkpoints and sets this to False."""
        # Partitions whose directory belongs to a deleted topic and could not be renamed.
        self._in_the_way: set[TopicPartition] = set()

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was clean and its checkpoint of recovery points could be read."""
        return self._last_stop.was_clean

    @property
    def previous_epoch(self) -> int:
        """The epoch of the broker that last stopped cleanly in the directory; -1 after a crash, which may have lost records."""
        return self._last_stop.broker_epoch if self.was_clean else -1

    @property
    def was_used(self) -> bool:
        """Whether a broker has run on the directory before this start."""
        return self._last_stop.was_used

    @property
    def unreadable(self) -> list[str]:
        """A line for each checkpoint that is damaged or lost, with the consequence."""
        return self._last_stop.unreadable

    @property
    def absolute_path(self) -> str:
        return self.fs.absolute(self.path)

    def ignores_case(self) -> bool:
        """Whether the file system ignores the case of names. The directory must have its meta.properties already."""
        return self.fs.read_file(f"{self.path}/{META_FILE.upper()}") is not None

    def acquire(self) -> None:
        """Lock the directory and read its checkpoints. Further calls do nothing. Raises `DirectoryError`."""
        if self._is_acquired:
            return
        try:
            if self.lock is None:
                self.fs.make_dir(self.path)
                self.lock = self.fs.lock(f"{self.path}/{LOCK_FILE}")
                if self.lock is None:
                    raise DirectoryError(f"{self.path} is in use by another broker; stop it or give another --data-dir")
                finish_replacement(self.fs, self.path)
            check_not_growing(self.fs, self.path)
            check_not_kafkas(self.fs, self.path)
            check_not_a_clusters(self.fs, self.path)
            self._last_stop = take_last_stop(self.fs, self.path)
            self._is_acquired = True
        except (OSError, DirectoryError) as error:
            self._unlock()
            self.lock = None
            if isinstance(error, DirectoryError):
                raise
            raise DirectoryError(f"cannot use {self.path}: {described(error)}") from error

    def is_ours(self) -> bool:
        """Whether the lock still protects the directory.

        If not, the directory was moved or replaced: writes would be lost, or mixed with another broker's writes.
        """
        return self.fs.holds(self.lock, f"{self.path}/{LOCK_FILE}")

    def partitions_on_disk(self) -> Iterator[TopicPartition]:
        """Yield the partitions that have a directory, and remove the directories of deleted partitions."""
        for name in self.fs.list_dir(self.path):
            if DELETED_NAME.fullmatch(name):
                # The next start tries again to remove a directory that cannot be removed now.
                with suppress(OSError):
                    self.fs.remove_dir(f"{self.path}/{name}")
                continue
            self.strays.note(name)
            parsed = parse_directory_name(name)
            if parsed is not None:
                yield parsed

    def directory_of(self, topic: str, partition: int) -> str:
        return f"{self.path}/{topic}-{partition}"

    def open(
        self, topic: str, partition: int, config: LogConfig, now_ms: int, topic_id: bytes = NO_UUID
    ) -> tuple[Log, RecoveryReport]:
        """Open a log from its directory, or create a log whose directory its first append will create.

        A log that cannot be opened is offline, with the reason in `Log.offline_reason`; all other logs stay in service.
        """
        key = (topic, partition)
        log = Log(self.fs, self.directory_of(topic, partition), topic, partition, config, topic_id)
        try:
            report = self._load(log, now_ms)
        except (OSError, KafkaError, ValueError) as error:
            log.abandon()
            log = Log(self.fs, log.directory, topic, partition, config, topic_id)
            log.offline_reason = described(error)
            report = RecoveryReport()
        log.first_dirty_offset = self._last_stop.first_dirty.get(key, 0)
        self.logs[key] = log
        return log, report

    def _load(self, log: Log, now_ms: int) -> RecoveryReport:
        """Fill a log from its directory. Raises OSError, and `KafkaError` or ValueError if the log's batches cannot be read."""
        key = (log.topic, log.partition)
        log.check_directory()
        # partition.metadata is read here, so that damage to it takes only this log offline.
        topic_id = self.topic_id_on_disk(*key)
        report = open_log(
            log,
            now_ms,
            clean=self.was_clean,
            recovery_point=self._last_stop.recovery_points.get(key, 0),
            may_be_compacted=self._last_stop.note_gaps_of(key),
            log_start_offset=self._last_stop.log_starts.get(key),
            aborted_checksum=self._last_stop.aborted_checksum(key),
            high_watermark=self._last_stop.high_watermarks.get(key, 0),
        )
        with suppress(OSError):
            # Ignore errors, because a full disk must not keep a log out of service. The next start writes these files again.
            if log.segments and topic_id is None and log.topic_id != NO_UUID:
                write_partition_metadata(self.fs, log.directory, log.topic_id)
                report.rebuilt.append(PARTITION_METADATA_FILE)
            if report.has_false_start:
                # The checkpoint has a log start offset after the end of the log. Correct it now, because after a crash a starting
                # broker would empty the log.
                del self._last_stop.log_starts[key]
                write_offsets(self.fs, f"{self.path}/{LOG_STARTS}", self._last_stop.log_starts)
        return report

    def was_written(self, topic: str, partition: int) -> bool:
        """Whether a log was not empty at the clean stop before this start.

        False after a crash, because the recovery point may be that of a deleted topic of the same name.
        """
        return self.was_clean and self._last_stop.recovery_points.get((topic, partition), 0) > 0

    def create(self, topic: str, partition: int, config: LogConfig, topic_id: bytes) -> Log:
        """Create the log of a new topic's partition.

        If the directory of an earlier topic of the same name cannot be renamed, the new log rejects appends.
        """
        earlier = self.logs.get((topic, partition))
        if earlier is not None:
            # The earlier topic was deleted, but its directory could not be renamed. Try again; `set_aside` retries later.
            with suppress(OSError):
                self.delete(earlier, topic_id.hex(), 0)
        log = Log(self.fs, self.directory_of(topic, partition), topic, partition, config, topic_id)
        self.logs[topic, partition] = log
        if (topic, partition) in self._deleted or self._last_stop.knows((topic, partition)):
            self._misnamed.append(log)
            if self._is_loaded:
                self._forget_misnamed()
        if (topic, partition) in self._in_the_way:
            with suppress(OSError):
                self.set_aside(topic, partition, topic_id.hex())
        return log

    def loaded(self) -> None:
        """Allow checkpoints to be written. Call this after all logs are opened; before that, entries would be missing."""
        self._is_loaded = True
        if self._misnamed:
            self._forget_misnamed()

    def _forget_misnamed(self) -> None:
        try:
            self._forget_deleted()
        except OSError:
            # The checkpoints still have the deleted logs' offsets, so the new logs reject appends until the next start.
            for log in self._misnamed:
                log.is_failed = True
        self._misnamed.clear()

    def topic_id_on_disk(self, topic: str, partition: int) -> bytes | None:
        return read_partition_metadata(self.fs, self.directory_of(topic, partition))

    def delete(self, log: Log, unique: str, now_ms: int) -> None:
        """Take a deleted log out of service and rename its directory, which is removed later. A missing directory is no error.

        Raises OSError if the directory cannot be renamed. The log is out of service nevertheless, and the next start finds no topic
        with the directory's topic id and calls `set_aside`.
        """
        topic, partition = key = (log.topic, log.partition)
        if self.logs.get(key) is not log:
            return
        del self.logs[key]
        self._deleted.add(key)
        log.is_deleted = log.is_failed = True
        with suppress(OSError):
            # Ignore errors of closing, because the files are about to be removed.
            log.abandon()
        if not log.segments and not log.is_offline:
            return
        renamed = f"{self.path}/{topic[:200]}-{partition}.{unique}{DELETE_SUFFIX}"
        try:
            self.fs.rename(log.directory, renamed)
        except FileNotFoundError:
            return
        except OSError:
            self._in_the_way.add((topic, partition))
            raise
        self.trash.add_directory(renamed, now_ms + log.config.file_delete_delay_ms)

    def set_aside(self, topic: str, partition: int, unique: str) -> str:
        """Rename the directory of a partition whose topic does not exist (a stray partition, as in Kafka); returns the new path.

        Raises OSError.
        """
        renamed = f"{self.path}/{topic[:200]}-{partition}.{unique}{STRAY_SUFFIX}"
        self._in_the_way.add((topic, partition))
        self.fs.rename(self.directory_of(topic, partition), renamed)
        self._in_the_way.discard((topic, partition))
        self.strays.note(renamed.rpartition("/")[2])
        return renamed

    async def apply_retention(self, now_ms: int, on_refused: Callable[[Log, OSError], None]) -> None:
        """Delete the segments that exceed each log's retention, a few segments in each step.

        ``on_refused`` is called for a log whose files cannot be renamed; the other logs are processed nevertheless. Raises OSError
        if the checkpoint of log start offsets cannot be written.
        """
        moved, pace = False, Pace()
        for log in list(self.logs.values()):
            try:
                while not log.is_offline and (paths := delete_old(log, now_ms, RETENTION_SEGMENTS_PER_STEP)):
                    self.trash.add_files(paths, now_ms + log.config.file_delete_delay_ms)
                    moved = True
                    await next_turn()
            except OSError as error:
                on_refused(log, error)
            if pace.spend(1):
                await next_turn()
        if moved:
            self.checkpoints.write_log_starts(self._last_stop)

    async def write_checkpoints(self) -> None:
        """Write all checkpoints except that of aborted transactions, one file in each step. Raises OSError."""
        return await self.checkpoints.write(self._last_stop)

    def write_high_watermarks(self) -> None:
        """Write only the checkpoint of high watermarks (replica.high.watermark.checkpoint.interval.ms). Raises OSError."""
        self.checkpoints.write_high_watermarks(self._last_stop)

    def delete_records(self, log: Log, before_offset: int) -> str:
        """Raise a log's start offset, first in the checkpoint; returns the checkpoint's path. On OSError nothing has changed."""
        path = self.checkpoints.write_log_starts(self._last_stop, {(log.topic, log.partition): before_offset})
        log.delete_records(before_offset)
        return path

    def truncate(self, log: Log, offset: int, now_ms: int) -> None:
        """Truncate a follower's log (`truncate_to`). The recovery point in the checkpoint is lowered first.

        Raises OSError. If the checkpoint cannot be written, nothing has changed.
        """
        end = end_after(log, offset)
        if end <= log.log_start_offset:
            self.truncate_fully_and_start_at(log, end, now_ms)
        else:
            self._lower_recovery_point(log, end)
            truncate_to(log, offset, now_ms)

    def truncate_fully_and_start_at(self, log: Log, offset: int, now_ms: int) -> None:
        """Empty a follower's log and restart it at an offset. First lowers the recovery point in the checkpoint. Raises OSError."""
        self._lower_recovery_point(log, 0)
        truncate_fully_and_start_at(log, offset, now_ms)
        # If the checkpoint kept the old log start offset, which may be above the new log end, the log would begin there after the
        # next start.
        self.checkpoints.write_log_starts(self._last_stop)

    def _lower_recovery_point(self, log: Log, offset: int) -> None:
        if log.recovery_point > offset:
            before, log.recovery_point = log.recovery_point, offset
            if log.recovery_point_checkpoint > offset:
                try:
                    self.checkpoints.write_recovery_points(self._last_stop)
                except OSError:
                    log.recovery_point = before
                    raise

    async def expire_producers(self, now_ms: int, expiration_ms: int, at_once: int) -> None:
        """Remove producers that were idle for ``expiration_ms``, in steps that each check at most ``at_once`` producers."""
        for log in list(self.logs.values()):
            if log.producers.has_any:
                await log.producers.remove_expired(now_ms, expiration_ms, at_once)

    def _forget_deleted(self) -> None:
        """Write all checkpoints without the deleted logs, so that no start applies their offsets to new logs of the same names.

        Raises OSError.
        """
        run(self.write_checkpoints())
        self.has_forgotten = True
        self._deleted.clear()
        self._last_stop.forget_all_but(self.logs.keys() - {(log.topic, log.partition) for log in self._misnamed})

    async def clean(self, dirty: Dirty, now_ms: int, buffer_bytes: int) -> Cleaned:
        """Compact a log. Raises `Interrupted`, `SyncFailed`, other OSErrors, and `KafkaError` for a log that cannot be read."""
        log = dirty.log
        # Compaction leaves gaps in the offsets, and recovery reads every gap above the recovery point as lost data. So the recovery
        # point is first moved past the segments that are compacted, and its checkpoint is synced.
        await settle([log])
        self.checkpoints.write_recovery_points(self._last_stop)
        await in_thread(self.checkpoints.sync_recovery_points)
        try:
            done = await clean(dirty, now_ms, buffer_bytes)
        finally:
            self.trash.add_files(log.renames.take_retired(), now_ms + log.config.file_delete_delay_ms)
        self.checkpoints.write_first_dirty()
        return done

    def abandon(self) -> None:
        """Close all logs and unlock the directory without writing anything, for example after a failed start."""
        for log in self.logs.values():
            with suppress(OSError):
                log.abandon()
        self._let_go()

    def _let_go(self) -> None:
        """Make all logs reject appends, then unlock the directory, so that late timers do not write to another broker's log."""
        for log in self.logs.values():
            log.is_failed = True
        self._unlock()

    def _unlock(self) -> None:
        if not self.keeps_lock:
            self.fs.unlock(self.lock)

    def close(self, broker_epoch: int = 0) -> list[str]:
        """Close all logs, write all checkpoints and unlock the directory. Returns a line for each failed write.

        ``broker_epoch`` is the epoch with which a remote controller registered the broker.

        The clean-shutdown file is written last, and only if every other write succeeded: without that file the next start recovers
        as after a crash. Nothing is written if the lock no longer protects the directory.
        """
        unwritten: list[str] = []
        if not self.is_ours():
            self.abandon()
            return [f"{self.path}: {NOT_OURS}"]

        def tried(work: Callable[[], None], name: str) -> bool:
            try:
                work()
            except OSError as error:
                unwritten.append(f"{name}: {described(error)}")
                return False
            return True

        for log in [log for log in self.logs.values() if log.is_deleted]:
            tried(partial(self.delete, log, log.topic_id.hex(), 0), f"renaming {log.directory}")
        is_whole = True
        for log in self.logs.values():
            is_whole = tried(log.close, repr(log)) and not log.is_failed and not log.is_offline and is_whole
        unwritten += [f"{path}: {reason}" for path, reason in run(self.trash.empty(1 << 62))]
        is_whole = tried(lambda: run(self.write_checkpoints()), "checkpoints") and is_whole
        is_whole = tried(self.checkpoints.write_aborted, ABORTED) and is_whole
        if is_whole and tried(self.checkpoints.sync, "checkpoints"):
            clean = f"{self.path}/{CLEAN_FILE}"
            tried(lambda: self.fs.write_file(clean, clean_file(broker_epoch)), CLEAN_FILE)
        self._let_go()
        return unwritten
