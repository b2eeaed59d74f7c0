"""Applies the decisions of `Following`, a follower's state machine, to its log."""

from __future__ import annotations

import structlog

from ottla.broker.loop.env import Clock
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_errors import disk_refused, note_damage, take_offline
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.partitions import Partition
from ottla.coordinator.replication.follower import Action, Append, FollowerLog, Following, StartAt, Truncate, taken_over
from ottla.coordinator.replication.leader import EpochEnd
from ottla.protocol.errors import Code, KafkaError
from ottla.storage.filesystem import described
from ottla.storage.following import UnexpectedOffset, append_as_follower
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.rebuilding import find_unreplicated
from ottla.storage.segment import Segment

log = structlog.get_logger("replication")


def view(partition_log: Log) -> FollowerLog:
    """The offsets of a log on which a follower's decisions depend."""
    return FollowerLog(
        start_offset=partition_log.log_start_offset,
        end_offset=partition_log.log_end_offset,
        high_watermark=partition_log.high_watermark,
    )


def end_of_epoch(partition_log: Log, diverging: EpochEnd | None) -> EpochEnd | None:
    """The offset at which the leader's ``diverging`` epoch, or the largest epoch below it, ends in the follower's log."""
    if diverging is None:
        return None
    return EpochEnd(*partition_log.epochs.end_offset_for(diverging.epoch, partition_log.log_end_offset))


class FollowerLogs:
    """Appends to, and truncates, the logs of followed partitions."""

    def __init__(self, clock: Clock, directory: LogDirectory, disk: DiskHealth, barrier: Barrier) -> None:
        self._clock = clock
        self._directory = directory
        self._disk = disk
        self._barrier = barrier

    def opened(self, partition: Partition) -> None:
        """Find the markers above the high watermark of a newly opened log: they may still be truncated."""
        if not partition.log.is_offline:
            try:
                find_unreplicated(partition.log)
            except OSError as error:
                disk_refused(self._disk, partition.log, error)
                take_offline(partition.log, described(error))

    def carry_out(self, partition: Partition, following: Following, action: Action) -> Action | None:
        """Change the log according to ``action``. Returns the next action after an error, ``action`` itself if it changes no log,
        else None."""
        try:
            match action:
                case Append():
                    self._append(partition, following, action)
                case Truncate(offset=offset):
                    self._truncate(partition, offset)
                case StartAt(offset=offset):
                    self._start_at(partition, offset)
                case _:
                    return action
        except UnexpectedOffset as error:
            log.error("follower_failed", partition=repr(partition.log), reason=str(error))
            return following.cannot_go_on()
        except KafkaError as error:
            note_damage(partition.log)
            return following.own_log_failed() if error.code is Code.KAFKA_STORAGE_ERROR else following.failed(error.code)
        except OSError as error:
            disk_refused(self._disk, partition.log, error)
            return following.own_log_failed() if partition.log.is_offline else following.failed(Code.UNKNOWN_SERVER_ERROR)
        return None

    def _append(self, partition: Partition, following: Following, action: Append) -> None:
        partition_log = partition.log
        if action.records:
            last = partition_log.segments[-1:]
            try:
                append_as_follower(partition_log, action.records, following.leader_epoch, self._clock.now_ms())
            finally:
                self._wrote_behind(partition_log, last)
        high_watermark, start_offset = taken_over(action, view(partition_log))
        partition.copied(high_watermark, start_offset, has_grown=bool(action.records))

    def _wrote_behind(self, partition_log: Log, last: list[Segment]) -> None:
        """Have ``last`` and all later segments synced, because the records of a response may have been written to them.

        This also applies if the log has refused a batch: earlier batches were appended, and the next fetch begins after them.
        """
        if self._barrier.group_commit is not None:
            segments = partition_log.segments
            first = segments.index(last[0]) if last and last[0] in segments else 0
            for segment in segments[first:]:
                self._barrier.group_commit.wrote(partition_log, segment)

    def _truncate(self, partition: Partition, offset: int) -> None:
        partition_log = partition.log
        if offset < partition_log.log_end_offset:
            log.info("log_truncated", partition=repr(partition_log), before=partition_log.log_end_offset, after=offset)
        self._directory.truncate(partition_log, offset, self._clock.now_ms())
        self._changed(partition_log)

    def _start_at(self, partition: Partition, offset: int) -> None:
        partition_log = partition.log
        log.info("log_fully_truncated", partition=repr(partition_log), before=partition_log.log_end_offset, start=offset)
        self._directory.truncate_fully_and_start_at(partition_log, offset, self._clock.now_ms())
        self._changed(partition_log)

    def _changed(self, partition_log: Log) -> None:
        """With ``ottla.durability=power`` the follower does not fetch until the truncation is on disk."""
        if partition_log.segments:
            self._barrier.wrote_file(partition_log.active.log.path, partition_log.directory)
