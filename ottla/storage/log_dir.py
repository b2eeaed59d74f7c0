"""A log directory: the lock, meta.properties, the checkpoints, and the logs in it (org.apache.kafka.storage LogManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from ottla.protocol.errors import KafkaError
from ottla.protocol.primitives import NO_UUID
from ottla.storage.checkpoint_writer import CheckpointWriter
from ottla.storage.checkpoints import (
    PARTITION_METADATA_FILE,
    read_partition_metadata,
    write_offsets,
    write_partition_metadata,
)
from ottla.storage.cleaning import Cleaned, Dirty, clean
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Filesystem, described
from ottla.storage.identity import META_FILE, NOT_OURS, DirectoryError, check_not_kafkas
from ottla.storage.last_stop import ABORTED, CLEAN_FILE, LOG_STARTS, LastStop, take_last_stop
from ottla.storage.log import Log
from ottla.storage.names import DELETE_SUFFIX, DELETED_NAME, STRAY_SUFFIX, TopicPartition, parse_directory_name
from ottla.storage.recovery import RecoveryReport, open_log
from ottla.storage.settling import settle
from ottla.storage.steps import Pace, Steps, run
from ottla.storage.trash import Trash

LOCK_FILE = ".lock"

RETENTION_SEGMENTS_PER_STEP = 20
"""How many segments one step of retention deletes. Each is four files, so a step unlinks at most 80."""


class LogDirectory:
    """All logs of one broker."""

    def __init__(self, fs: Filesystem, path: str) -> None:
        self.fs = fs
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self._lock: object | None = None
        self._last_stop = LastStop()
        self.checkpoints = CheckpointWriter(fs, path, self.logs)
        self._is_loaded = False
        # New logs of names that the checkpoints still have another log's offsets for.
        self._misnamed: list[Log] = []
        self.trash = Trash(fs)
        # Logs that were deleted in this life, and that the checkpoints may still name.
        self._deleted: set[TopicPartition] = set()
        self.has_forgotten = False
        """Whether logs that are gone were taken out of the checkpoints, which are not synced yet: the answers of a new log of
        such a name wait for it. Whoever sees to that sets it back."""
        # Directories that belong to no topic and could not be renamed.
        self._in_the_way: set[TopicPartition] = set()

    @property
    def was_clean(self) -> bool:
        """Whether a clean stop has left the directory, and nothing is wrong with where it says that the logs ended."""
        return self._last_stop.was_clean

    @property
    def unreadable(self) -> list[str]:
        return self._last_stop.unreadable

    @property
    def absolute_path(self) -> str:
        return self.fs.absolute(self.path)

    def ignores_case(self) -> bool:
        """Whether the file system takes names that differ by case for one. The directory has its identity already."""
        return self.fs.read_file(f"{self.path}/{META_FILE.upper()}") is not None

    def acquire(self) -> None:
        """Lock the directory and read its checkpoints; once it is locked, nothing more. Raises `DirectoryError`."""
        if self._lock is not None:
            return
        try:
            self.fs.make_dir(self.path)
            self._lock = self.fs.lock(f"{self.path}/{LOCK_FILE}")
            if self._lock is None:
                raise DirectoryError(f"{self.path} is in use by another broker; stop it or give another --data-dir")
            check_not_kafkas(self.fs, self.path)
            self._last_stop = take_last_stop(self.fs, self.path)
        except (OSError, DirectoryError) as error:
            self.fs.unlock(self._lock)
            self._lock = None
            if isinstance(error, DirectoryError):
                raise
            raise DirectoryError(f"cannot use {self.path}: {described(error)}") from error

    def is_ours(self) -> bool:
        """Whether the lock still protects the directory: what is written else is lost, or written beside another broker."""
        return self.fs.holds(self._lock, f"{self.path}/{LOCK_FILE}")

    def partitions_on_disk(self) -> Iterator[TopicPartition]:
        for name in self.fs.list_dir(self.path):
            if DELETED_NAME.fullmatch(name):
                # What cannot be removed now is tried again by the next start.
                with suppress(OSError):
                    self.fs.remove_dir(f"{self.path}/{name}")
                continue
            parsed = parse_directory_name(name)
            if parsed is not None:
                yield parsed

    def directory_of(self, topic: str, partition: int) -> str:
        return f"{self.path}/{topic}-{partition}"

    def open(
        self, topic: str, partition: int, config: LogConfig, now_ms: int, topic_id: bytes = NO_UUID
    ) -> tuple[Log, RecoveryReport]:
        """Open a log that is on disk, or make one that will be at its first append.

        One that cannot be opened is offline: it says why, and all others are served.
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
        """Raises OSError, and whatever reading a log may raise that is none."""
        key = (log.topic, log.partition)
        log.check_directory()
        # Damaged metadata is told of here, where there is a log to take offline.
        topic_id = self.topic_id_on_disk(*key)
        report = open_log(
            log,
            now_ms,
            clean=self.was_clean,
            recovery_point=self._last_stop.recovery_points.get(key, 0),
            may_be_compacted=self._last_stop.note_gaps_of(key),
            log_start_offset=self._last_stop.log_starts.get(key),
            aborted_checksum=self._last_stop.aborted_checksum(key),
        )
        with suppress(OSError):
            # A full disk keeps no log out of service: the next start comes back to this.
            if log.segments and topic_id is None and log.topic_id != NO_UUID:
                write_partition_metadata(self.fs, log.directory, log.topic_id)
                report.rebuilt.append(PARTITION_METADATA_FILE)
            if report.has_false_start:
                # At once: after a crash a log is emptied that ends before its start.
                del self._last_stop.log_starts[key]
                write_offsets(self.fs, f"{self.path}/{LOG_STARTS}", self._last_stop.log_starts)
        return report

    def was_written(self, topic: str, partition: int) -> bool:
        """Whether a log held something at the clean stop before this start.

        After a crash the point may be that of an earlier topic of the name, which was deleted, and the new one not written yet.
        """
        return self.was_clean and self._last_stop.recovery_points.get((topic, partition), 0) > 0

    def create(self, topic: str, partition: int, config: LogConfig, topic_id: bytes) -> Log:
        """A log that did not exist before.

        Where an earlier topic's directory is still in its place and cannot be moved away, it refuses to be written.
        """
        earlier = self.logs.get((topic, partition))
        if earlier is not None:
            # Deleted, and its directory's turn has not come. What stays in the way is dealt with below.
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
        """All logs are open: from now on the checkpoints may be written, which say nothing of a log that is not known."""
        self._is_loaded = True
        if self._misnamed:
            self._forget_misnamed()

    def _forget_misnamed(self) -> None:
        try:
            self._forget_deleted()
        except OSError:
            # With another log's offsets in the checkpoints nothing may be written: the next start tries again.
            for log in self._misnamed:
                log.is_failed = True
        self._misnamed.clear()

    def topic_id_on_disk(self, topic: str, partition: int) -> bytes | None:
        return read_partition_metadata(self.fs, self.directory_of(topic, partition))

    def delete(self, log: Log, unique: str, now_ms: int) -> None:
        """Rename the directory of a deleted log, which is removed later. One that is not there is no error.

        Raises OSError where it cannot be renamed: the log is out of service all the same, and the next start, which knows no
        topic of its id, sets the directory aside.
        """
        topic, partition = key = (log.topic, log.partition)
        if self.logs.get(key) is not log:
            return
        del self.logs[key]
        self._deleted.add(key)
        log.is_deleted = log.is_failed = True
        with suppress(OSError):
            # Nothing in these files is wanted any more.
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
        """Rename a directory that belongs to no topic, as Kafka does with strays; its new name. Raises OSError."""
        renamed = f"{self.path}/{topic[:200]}-{partition}.{unique}{STRAY_SUFFIX}"
        self._in_the_way.add((topic, partition))
        self.fs.rename(self.directory_of(topic, partition), renamed)
        self._in_the_way.discard((topic, partition))
        return renamed

    def apply_retention(self, now_ms: int, on_refused: Callable[[Log, OSError], None]) -> Steps[None]:
        """Delete what the logs' settings let go, in steps of a few segments.

        ``on_refused`` hears of a log whose files the disk did not let go; the others are looked at all the same. Raises
        OSError where the checkpoint of log starts cannot be written.
        """
        moved, pace = False, Pace()
        for log in list(self.logs.values()):
            try:
                while not log.is_offline and (paths := log.delete_old(now_ms, RETENTION_SEGMENTS_PER_STEP)):
                    self.trash.add_files(paths, now_ms + log.config.file_delete_delay_ms)
                    moved = True
                    yield None
            except OSError as error:
                on_refused(log, error)
            if pace.is_over(1):
                yield None
        if moved:
            self.checkpoints.write_log_starts(self._last_stop)

    def write_checkpoints(self) -> Steps[None]:
        """All that are written while the broker runs, a file a step. Raises OSError."""
        return self.checkpoints.write(self._last_stop)

    def delete_records(self, log: Log, before_offset: int) -> str:
        """Move a log's start, in the checkpoint first; the checkpoint's path. Raises OSError with nothing changed."""
        path = self.checkpoints.write_log_starts(self._last_stop, {(log.topic, log.partition): before_offset})
        log.delete_records(before_offset)
        return path

    def expire_producers(self, now_ms: int, expiration_ms: int, at_once: int) -> Steps[None]:
        """In steps that each look at ``at_once`` producers at most."""
        for log in list(self.logs.values()):
            if log.producers.has_any:
                yield from log.producers.remove_expired(now_ms, expiration_ms, at_once)

    def _forget_deleted(self) -> None:
        """Take logs that are gone out of all checkpoints: a start would take their offsets for those of new logs of their names.

        Raises OSError.
        """
        run(self.write_checkpoints())
        self.has_forgotten = True
        self._deleted.clear()
        self._last_stop.forget_all_but(self.logs.keys() - {(log.topic, log.partition) for log in self._misnamed})

    def clean(self, dirty: Dirty, now_ms: int, buffer_bytes: int) -> Steps[Cleaned]:
        """Compact a log. Raises `Interrupted`, `SyncFailed` and other OSErrors, and `KafkaError` for one that cannot be read."""
        log = dirty.log
        # A start takes gaps above the recovery point for losses. So the recovery point moves past the segments first, on the
        # disk as well.
        yield from settle([log])
        self.checkpoints.write_recovery_points(self._last_stop)
        yield self.checkpoints.sync_recovery_points
        try:
            done = yield from clean(dirty, now_ms, buffer_bytes)
        finally:
            self.trash.add_files(log.renames.take_retired(), now_ms + log.config.file_delete_delay_ms)
        self.checkpoints.write_first_dirty()
        return done

    def abandon(self) -> None:
        """Give the directory up as it is: what a start that fails does."""
        for log in self.logs.values():
            log.abandon()
        self._let_go()

    def _let_go(self) -> None:
        """From now on another broker may have the directory: a timer that still fires must append nothing to its logs."""
        for log in self.logs.values():
            log.is_failed = True
        self.fs.unlock(self._lock)

    def close(self) -> list[str]:
        """A stop; what could not be written, a line each.

        The clean-shutdown file is the very last that is written, and only where all else was: without it the next start
        recovers as after a crash. Nothing is written where the directory is not ours any more.
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
        unwritten += run(self.trash.empty(1 << 62))
        is_whole = tried(lambda: run(self.write_checkpoints()), "checkpoints") and is_whole
        is_whole = tried(self.checkpoints.write_aborted, ABORTED) and is_whole
        if is_whole and tried(self.checkpoints.sync, "checkpoints"):
            clean = f"{self.path}/{CLEAN_FILE}"
            tried(lambda: self.fs.write_file(clean, b'{"version":0,"brokerEpoch":0}'), CLEAN_FILE)
        self._let_go()
        return unwritten
