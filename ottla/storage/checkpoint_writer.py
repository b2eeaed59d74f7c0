"""Writes the checkpoints of a log directory from its open logs (LogManager.checkpointRecoveryOffsetsInDir and similar methods).

A log that is offline keeps its entries from the last stop, which are in the `LastStop` argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from ottla.protocol.steps import next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, write_offsets
from ottla.storage.filesystem import Filesystem, SyncFailed, sync_dir, sync_file
from ottla.storage.last_stop import ABORTED, FIRST_DIRTY, LOG_STARTS, LastStop
from ottla.storage.log import Log
from ottla.storage.txn_index import checksum_of


class CheckpointWriter:
    """Writes the checkpoints of ``logs``. Every method may raise OSError."""

    __slots__ = ("_fs", "_logs", "_path")

    def __init__(self, fs: Filesystem, path: str, logs: dict[TopicPartition, Log]) -> None:
        self._fs = fs
        self._path = path
        self._logs = logs

    @property
    def paths(self) -> list[str]:
        """The paths of the checkpoints from which a starting broker reads offsets.

        Their entries have no topic id. So a starting broker would apply an entry of a deleted log to a new log of the same name.
        """
        return [f"{self._path}/{name}" for name in (RECOVERY_POINTS, LOG_STARTS, FIRST_DIRTY, HIGH_WATERMARKS)]

    async def write(self, last_stop: LastStop) -> None:
        """Write all checkpoints except that of aborted transactions, one file in each step."""
        self.write_log_starts(last_stop)
        await next_turn()
        self.write_recovery_points(last_stop)
        await next_turn()
        self.write_first_dirty()
        await next_turn()
        self.write_high_watermarks(last_stop)

    def write_aborted(self) -> None:
        """Write the checksum of each log's aborted transactions (`checksum_of`). Only a clean stop calls this."""
        self._write(ABORTED, self._of_logs(lambda log: checksum_of(segment.txn_index for segment in log.segments)))

    def sync(self) -> None:
        """Sync all checkpoints, in a clean stop.

        The clean-shutdown file is written after this: a power cut must not leave that file with older checkpoints.
        """
        self._sync([*self.paths, f"{self._path}/{ABORTED}"])

    def sync_recovery_points(self) -> None:
        """Sync the checkpoint of recovery points. May run in a worker thread."""
        self._sync([f"{self._path}/{RECOVERY_POINTS}"])

    def _sync(self, paths: list[str]) -> None:
        for path in paths:
            sync_file(self._fs, path)
        # Ignore the error: a file system or its permissions may not allow syncing a directory.
        with suppress(SyncFailed):
            sync_dir(self._fs, self._path)

    def write_recovery_points(self, last_stop: LastStop) -> None:
        # An offline log keeps its recovery point, so that the next start still reports damage below that point, also after a crash.
        # A recovery point 0 is written only if the checkpoint had 0 before: 0 means that compaction may have left gaps in the log
        # (`LastStop.recovery_points`).
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
        """Write the log start offsets; returns the path of the checkpoint.

        ``moved`` has log start offsets that the caller applies to the logs only after this write.
        """
        moved = moved or {}
        starts = {
            key: start
            for key, log in self._logs.items()
            if log.segments and (start := max(log.log_start_offset, moved.get(key, 0))) > log.segments[0].base_offset
        }
        # A log that could not be opened keeps its log start offset of the last stop: deleted records must stay deleted.
        known = last_stop.log_starts
        starts |= {key: known[key] for key, log in self._logs.items() if log.is_offline and not log.segments and key in known}
        return self._write(LOG_STARTS, starts)

    def write_high_watermarks(self, last_stop: LastStop) -> None:
        """Write the high watermarks (ReplicaManager.checkpointHighWatermarks). A log that could not be opened keeps its entry."""
        known = last_stop.high_watermarks
        kept = {key: known[key] for key, log in self._logs.items() if log.is_offline and not log.segments and key in known}
        self._write(HIGH_WATERMARKS, kept | {key: log.high_watermark for key, log in self._logs.items() if log.segments})

    def write_first_dirty(self) -> None:
        self._write(FIRST_DIRTY, {key: log.first_dirty_offset for key, log in self._logs.items() if log.first_dirty_offset})

    def _of_logs(self, value: Callable[[Log], int]) -> dict[TopicPartition, int]:
        return {key: value(log) for key, log in self._logs.items() if log.segments and not log.is_offline}

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> str:
        path = f"{self._path}/{name}"
        write_offsets(self._fs, path, offsets)
        return path
