"""What the last stop, or the last crash, has left of a log directory's checkpoints."""

from __future__ import annotations

from contextlib import suppress

from ottla.storage.checkpoints import RECOVERY_POINTS, parse_offsets, write_offsets
from ottla.storage.filesystem import Filesystem, SyncFailed, sync_dir
from ottla.storage.identity import META_FILE
from ottla.storage.names import TopicPartition

CLEAN_FILE = ".kafka_cleanshutdown"
LOG_STARTS = "log-start-offset-checkpoint"
FIRST_DIRTY = "cleaner-offset-checkpoint"
ABORTED = "ottla-aborted-checkpoint"
"""For each log that a clean stop has closed, the CRC of its aborted transactions. Apache Kafka does not look at this file."""
NO_CHECKSUM = -1
"""What no aborted transactions have."""


def remove_clean_file(fs: Filesystem, directory: str) -> bool:
    """Whether there was the file of a clean stop. What is written from now on is not what that stop has left. Raises OSError."""
    path = f"{directory}/{CLEAN_FILE}"
    if fs.read_file(path) is None:
        return False
    fs.unlink(path)
    # Gone from the disk as well: what a power cut tears later must not be taken for damage to what a clean stop has left. Some
    # file systems sync no directories, and some parents may not be read: they keep no new file for sure either.
    with suppress(SyncFailed):
        sync_dir(fs, directory)
    return True


class LastStop:
    """The checkpoints as a start has found them. Later the directory takes out what was said of logs that are gone."""

    __slots__ = (
        "aborted",
        "first_dirty",
        "knows_recovery_points",
        "log_starts",
        "recovery_points",
        "unreadable",
        "vouches",
        "was_clean",
    )

    def __init__(self) -> None:
        self.was_clean = True
        # False where they cannot be read.
        self.knows_recovery_points = True
        self.recovery_points: dict[TopicPartition, int] = {}
        """Up to which offset each log was on the disk. 0 means that nobody knows, so that no gap in the log is taken for a loss. A
        person writes it who would rather go on without what is damaged, `ottla adopt` does for what another broker has written, and
        a start does where this checkpoint was lost. A log that has never been written has no entry."""
        self.log_starts: dict[TopicPartition, int] = {}
        self.first_dirty: dict[TopicPartition, int] = {}
        self.unreadable: list[str] = []
        """A line for each checkpoint that is there and cannot be read, and what follows from it."""
        self.aborted: dict[TopicPartition, int] = {}
        self.vouches = True

    def aborted_checksum(self, where: TopicPartition) -> int | None:
        """What `checksum_of` gave for a log; None where nobody knows, and `NO_CHECKSUM` where whoever knew cannot be read."""
        return self.aborted.get(where) if self.vouches else NO_CHECKSUM

    def note_gaps_of(self, where: TopicPartition) -> bool:
        """Whether compaction may have left gaps anywhere in a log, because nobody knows its recovery point.

        Where the checkpoint was lost this also gives the log a recovery point of 0, which is then written with the others:
        that nobody knows has to stay written down until the log has a recovery point above 0.
        """
        if not self.knows_recovery_points:
            self.recovery_points.setdefault(where, 0)
        return self.recovery_points.get(where) == 0

    def knows(self, where: TopicPartition) -> bool:
        return any(where in known for known in (self.recovery_points, self.log_starts, self.first_dirty))

    def forget_all_but(self, logs: set[TopicPartition]) -> None:
        """Of others than these nothing is known any more."""
        for known in (self.recovery_points, self.log_starts, self.first_dirty):
            for key in known.keys() - logs:
                del known[key]


def take_last_stop(fs: Filesystem, directory: str) -> LastStop:
    """Read what the last stop has left, and begin what the next one will find. Raises OSError.

    The file of a clean stop is removed, and a directory that was never used gets its checkpoint of recovery points.
    """
    stop = LastStop()
    # Gone before anything is loaded: a crash while loading must count as unclean (KAFKA-10471).
    stop.was_clean = remove_clean_file(fs, directory)

    def take(name: str, consequence: str, *, is_expected: bool = False) -> tuple[dict[TopicPartition, int], bool]:
        """What a checkpoint says, and whether it is neither damaged nor missing where it should be."""
        raw = fs.read_file(f"{directory}/{name}")
        offsets = parse_offsets(raw)
        is_whole = offsets is not None or (raw is None and not is_expected)
        if not is_whole:
            wrong = "is missing" if raw is None else "cannot be read"
            stop.unreadable.append(f"{directory}/{name} {wrong}: {consequence}")
        return offsets or {}, is_whole

    through = "every log is read through, as after a crash"
    is_used = stop.was_clean or fs.read_file(f"{directory}/{META_FILE}") is not None
    stop.recovery_points, stop.knows_recovery_points = take(RECOVERY_POINTS, through, is_expected=is_used)
    if not is_used and stop.knows_recovery_points:
        # From now on it is missing only where it was lost.
        write_offsets(fs, f"{directory}/{RECOVERY_POINTS}", stop.recovery_points)
    # Without them nobody can say where the logs ended.
    stop.was_clean = stop.was_clean and stop.knows_recovery_points
    starts = "every log begins with its first segment, also where records were deleted"
    stop.log_starts, _ = take(LOG_STARTS, starts)
    stop.first_dirty, _ = take(FIRST_DIRTY, "compacted logs are cleaned from their beginning")
    stop.aborted, stop.vouches = take(ABORTED, "every log is read through for its aborted transactions")
    return stop
