"""Writes the checkpoints of a log directory from its open logs (LogManager.checkpointRecoveryOffsetsInDir and its neighbours).

The directory gives the `LastStop`: what its start has read of them still holds of logs that could not be opened. Of logs that are
offline nothing new is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from ottla.storage.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.storage.filesystem import Filesystem, SyncFailed, sync_dir, sync_file
from ottla.storage.last_stop import ABORTED, FIRST_DIRTY, LOG_STARTS, LastStop
from ottla.storage.log import Log
from ottla.storage.names import TopicPartition
from ottla.storage.steps import Steps
from ottla.storage.txn_index import checksum_of

HIGH_WATERMARKS = "replication-offset-checkpoint"


class CheckpointWriter:
    """Writes the checkpoints of ``logs``. Every method raises OSError."""

    __slots__ = ("_fs", "_logs", "_path")

    def __init__(self, fs: Filesystem, path: str, logs: dict[TopicPartition, Log]) -> None:
        self._fs = fs
        self._path = path
        self._logs = logs

    @property
    def paths(self) -> list[str]:
        """The checkpoints that a start goes by.

        They name logs by topic and partition: until a deleted log is out of them, its offsets would be taken for those of a new
        log of the same name.
        """
        return [f"{self._path}/{name}" for name in (RECOVERY_POINTS, LOG_STARTS, FIRST_DIRTY)]

    def write(self, last_stop: LastStop) -> Steps[None]:
        """All that are written while the broker runs, a file a step."""
        self.write_log_starts(last_stop)
        yield None
        self.write_recovery_points(last_stop)
        yield None
        self.write_first_dirty()
        yield None
        self._write(HIGH_WATERMARKS, self._of_logs(lambda log: log.high_watermark))

    def write_aborted(self) -> None:
        """For a clean stop: what the aborted transactions of each log add up to."""
        self._write(ABORTED, self._of_logs(lambda log: checksum_of(segment.txn_index for segment in log.segments)))

    def sync(self) -> None:
        """Before the file of a clean stop, behind which a power cut must not leave older checkpoints."""
        self._sync([*self.paths, f"{self._path}/{ABORTED}"])

    def sync_recovery_points(self) -> None:
        """It may run beside the event loop."""
        self._sync([f"{self._path}/{RECOVERY_POINTS}"])

    def _sync(self, paths: list[str]) -> None:
        for path in paths:
            sync_file(self._fs, path)
        # Some file systems sync no directories, and some parents may not be read.
        with suppress(SyncFailed):
            sync_dir(self._fs, self._path)

    def write_recovery_points(self, last_stop: LastStop) -> None:
        # What is damaged below the recovery point stays damage at the next start, which may come after a crash. A 0 is written
        # only where it was there: it says that a compaction may have left gaps in the log (`LastStop.recovery_points`).
        known = last_stop.recovery_points
        points = {
            key: log.recovery_point if log.segments else known[key]
            for key, log in self._logs.items()
            if (log.segments and log.recovery_point) or (key in known and (log.segments or log.is_offline))
        }
        self._write(RECOVERY_POINTS, points)
        for key, point in points.items():
            self._logs[key].recovery_point_checkpoint = point

    def write_log_starts(self, last_stop: LastStop, moved: Mapping[TopicPartition, int] | None = None) -> str:
        """The path of what was written. ``moved`` are starts that are about to be."""
        moved = moved or {}
        starts = {
            key: start
            for key, log in self._logs.items()
            if log.segments and (start := max(log.log_start_offset, moved.get(key, 0))) > log.segments[0].base_offset
        }
        # One that could not be opened keeps what the last start knew: deleted records must not come back with it.
        known = last_stop.log_starts
        starts |= {key: known[key] for key, log in self._logs.items() if log.is_offline and not log.segments and key in known}
        return self._write(LOG_STARTS, starts)

    def write_first_dirty(self) -> None:
        self._write(FIRST_DIRTY, {key: log.first_dirty_offset for key, log in self._logs.items() if log.first_dirty_offset})

    def _of_logs(self, value: Callable[[Log], int]) -> dict[TopicPartition, int]:
        return {key: value(log) for key, log in self._logs.items() if log.segments and not log.is_offline}

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> str:
        path = f"{self._path}/{name}"
        write_offsets(self._fs, path, offsets)
        return path
