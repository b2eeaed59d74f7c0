"""The checkpoints of a log directory as the last stop or crash left them."""

from __future__ import annotations

import re

from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, parse_offsets, write_offsets
from ottla.storage.filesystem import Filesystem, sync_names
from ottla.storage.identity import META_FILE
from ottla.storage.names import parse_directory_name

CLEAN_FILE = ".kafka_cleanshutdown"
LOG_STARTS = "log-start-offset-checkpoint"
FIRST_DIRTY = "cleaner-offset-checkpoint"
ABORTED = "ottla-aborted-checkpoint"
"""A checkpoint, written by a clean stop, with a CRC of each log's aborted transactions. Apache Kafka does not read it."""
UNKNOWN_EPOCH = -1
_BROKER_EPOCH = re.compile(rb'"brokerEpoch"\s*:\s*(\d{1,18})')
NO_CHECKSUM = -1
"""A value that differs from every checksum of aborted transactions."""


def remove_clean_file(fs: Filesystem, directory: str) -> bytes | None:
    """Remove the clean-shutdown file before the directory is written to. Returns its content; None if it did not exist.

    Raises OSError.
    """
    path = f"{directory}/{CLEAN_FILE}"
    content = fs.read_file(path)
    if content is None:
        return None
    fs.unlink(path)
    # Sync the removal: if the file came back after a power cut, a starting broker would report incomplete batches as damage to
    # cleanly closed logs.
    sync_names(fs, directory)
    return content


def clean_file(broker_epoch: int) -> bytes:
    """The content of the clean-shutdown file (CleanShutdownFileHandler)."""
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def _epoch_in(content: bytes) -> int:
    """The broker epoch in a clean-shutdown file; -1 without an epoch, as in the empty files of Kafka before 3.7."""
    named = _BROKER_EPOCH.search(content)
    return UNKNOWN_EPOCH if named is None else int(named[1])


class LastStop:
    """The checkpoints as read by a starting broker. `LogDirectory` later removes the entries of deleted logs (`forget_all_but`)."""

    __slots__ = (
        "aborted",
        "broker_epoch",
        "first_dirty",
        "high_watermarks",
        "knows_aborted",
        "knows_recovery_points",
        "log_starts",
        "recovery_points",
        "unreadable",
        "was_clean",
        "was_used",
    )

    def __init__(self) -> None:
        self.was_clean = True
        self.broker_epoch = UNKNOWN_EPOCH
        """The epoch of the broker that has stopped cleanly in this directory; -1 after a crash."""
        # Whether a broker has run on the directory before this start.
        self.was_used = False
        # Whether the checkpoint of recovery points is neither damaged nor lost.
        self.knows_recovery_points = True
        self.recovery_points: dict[TopicPartition, int] = {}
        """The offset up to which each log was synced. A log that has never been written has no entry. 0 means that the offset is
        unknown: recovery then treats no gap in the log as lost data. 0 is written by a starting broker if this checkpoint was lost,
        by `ottla adopt` for the logs of another broker, and by a person who gives up damaged records.
        """
        self.log_starts: dict[TopicPartition, int] = {}
        self.first_dirty: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The high watermark of each log. Without an entry, a log's high watermark is its log start offset until a leader sends a
        higher value."""
        self.unreadable: list[str] = []
        """A line for each checkpoint that is damaged or lost, with the consequence."""
        self.aborted: dict[TopicPartition, int] = {}
        self.knows_aborted = True
        """Whether the checkpoint of aborted transactions could be read. True if the file does not exist."""

    def aborted_checksum(self, where: TopicPartition) -> int | None:
        """Return the checksum (`checksum_of`) of a log's aborted transactions at the last stop.

        Returns None if the checkpoint has no entry for the log. Returns `NO_CHECKSUM` if the checkpoint is damaged, so
        that the log's index is rebuilt.
        """
        return self.aborted.get(where) if self.knows_aborted else NO_CHECKSUM

    def note_gaps_of(self, where: TopicPartition) -> bool:
        """Whether compaction may have left gaps anywhere in a log, because the log's recovery point is unknown.

        If the checkpoint was lost, the log's recovery point becomes 0. The next checkpoint contains the 0, so that later starts
        also expect gaps, until the log has a recovery point above 0.
        """
        if not self.knows_recovery_points:
            self.recovery_points.setdefault(where, 0)
        return self.recovery_points.get(where) == 0

    def knows(self, where: TopicPartition) -> bool:
        return any(where in known for known in self._by_name)

    def forget_all_but(self, logs: set[TopicPartition]) -> None:
        """Remove the entries of all logs that are not in ``logs``."""
        for known in self._by_name:
            for key in known.keys() - logs:
                del known[key]

    @property
    def _by_name(self) -> tuple[dict[TopicPartition, int], ...]:
        return self.recovery_points, self.log_starts, self.first_dirty, self.high_watermarks


def _has_logs(fs: Filesystem, directory: str) -> bool:
    """Whether a broker has run on the directory. A directory that was only formatted has an identity, but no log."""
    if fs.read_file(f"{directory}/{META_FILE}") is None:
        return False
    return any(map(parse_directory_name, fs.list_dir(directory)))


def take_last_stop(fs: Filesystem, directory: str) -> LastStop:
    """Read the checkpoints of the last stop, and prepare the directory for this start. Raises OSError.

    Removes the clean-shutdown file. Writes the checkpoint of recovery points into a directory that was never used.
    """
    stop = LastStop()
    # The file is removed before any log is loaded: a crash during loading must count as unclean (KAFKA-10471).
    content = remove_clean_file(fs, directory)
    stop.was_clean = content is not None
    stop.broker_epoch = UNKNOWN_EPOCH if content is None else _epoch_in(content)

    def take(name: str, consequence: str, *, is_expected: bool = False) -> tuple[dict[TopicPartition, int], bool]:
        """Return the entries of a checkpoint, and whether the file is sound. A missing file counts as sound unless
        ``is_expected``."""
        raw = fs.read_file(f"{directory}/{name}")
        offsets = parse_offsets(raw)
        is_whole = offsets is not None or (raw is None and not is_expected)
        if not is_whole:
            wrong = "is missing" if raw is None else "cannot be read"
            stop.unreadable.append(f"{directory}/{name} {wrong}: {consequence}")
        return offsets or {}, is_whole

    through = "every log is read in full, as after a crash"
    is_used = stop.was_used = stop.was_clean or _has_logs(fs, directory)
    stop.recovery_points, stop.knows_recovery_points = take(RECOVERY_POINTS, through, is_expected=is_used)
    if not is_used and stop.knows_recovery_points:
        # Write the checkpoint at the first start, so that later starts report a missing checkpoint as lost.
        write_offsets(fs, f"{directory}/{RECOVERY_POINTS}", stop.recovery_points)
    # Without recovery points it is unknown where the logs ended at the last stop, so all logs are recovered as after a crash.
    stop.was_clean = stop.was_clean and stop.knows_recovery_points
    starts = "every log starts at its first segment, including deleted records"
    stop.log_starts, _ = take(LOG_STARTS, starts)
    stop.first_dirty, _ = take(FIRST_DIRTY, "compaction starts at the beginning of each log")
    stop.high_watermarks, _ = take(HIGH_WATERMARKS, "every log treats its records as uncommitted until its leader confirms them")
    stop.aborted, stop.knows_aborted = take(ABORTED, "every log is read in full for its aborted transactions")
    return stop
