"""Delays responses and effects until the writes on which they depend are committed and durable.

A response or effect depends on a log up to an offset, or on all data written so far. It is released when these writes are committed
(below the high watermark) and as durable as ``ottla.durability`` promises. With a single broker and ``process`` it is released
immediately (`Barrier.never_waits`); with ``power`` it waits for `GroupCommit`. `broker.partitions.partitions.Partition` moves the
high watermark and then calls `Barrier.committed`.

Coroutines wait with `Barrier.before_response` or `Barrier.before_effect` for a log up to an offset, and with
`Barrier.durable_before_response` or `Barrier.durable_before_effect` for all data written so far. A response may fail: it stops
waiting if a sync has failed or if too many responses wait. An effect must happen: it waits through failed syncs, until another
broker leads the partition or the disk has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ottla.broker.partitions.durability import GroupCommit, OnDurable
from ottla.protocol.steps import Pause
from ottla.storage.log import Log

MAX_ANSWERS_A_LOG = 100_000
"""If this number of responses and effects waits for a log's high watermark, no further response may wait.
Effects of coordinators may always wait."""


class Replicated(Protocol):
    """A partition of a coordinator's topic (`broker.partitions.partitions.Partition`)."""

    log: Log

    @property
    def is_led(self) -> bool: ...


class LogPosition(NamedTuple):
    """The end of the records of a coordinator's log that a response depends on, and the leader epoch at that time."""

    leader_epoch: int
    end_offset: int

    @staticmethod
    def on(partition: Replicated) -> LogPosition:
        """The current end of a partition's log."""
        return LogPosition(partition.log.leader_epoch, partition.log.log_end_offset)


class Barrier:
    """Delays a broker's responses and effects until the writes that they depend on are committed and durable.

    ``group_commit`` is None with ``ottla.durability=process``. ``is_replicated`` means that partitions may have other replicas, so
    that responses of coordinators wait for high watermarks.
    """

    __slots__ = ("_uncommitted", "dependencies", "group_commit", "is_replicated", "leaderships_lost", "never_waits", "on_written")

    def __init__(self, group_commit: GroupCommit | None, *, is_replicated: bool = False) -> None:
        self.group_commit = group_commit
        # For each log, its waiters with the offset that the high watermark must reach.
        self._uncommitted: WeakKeyDictionary[Log, list[tuple[int, OnDurable]]] = WeakKeyDictionary()
        self.never_waits = group_commit is None
        self.on_written: Callable[[Log], None] | None = None if group_commit is None else group_commit.wrote
        """Must be called with each log that has grown; None with ``ottla.durability=process``, which needs no syncs."""

        self.is_replicated = is_replicated
        self.leaderships_lost = 0
        """Number of times that another broker became leader of a partition.

        A request that is handled in several steps stores this number before its first write. `Partition.was_lost_since` then
        returns whether the writes may be lost, even if this broker leads again.
        """
        self.dependencies: dict[Replicated, LogPosition] = {}
        """The coordinators' partitions that the response of the current request depends on."""

    def depend_on(self, partition: Replicated) -> None:
        """Record that the response of the current request depends on a coordinator's log. Called only if `is_replicated`."""
        self.dependencies[partition] = LogPosition.on(partition)

    def take_dependencies(self) -> dict[Replicated, LogPosition]:
        dependencies, self.dependencies = self.dependencies, {}
        return dependencies

    @property
    def is_pending(self) -> bool:
        """Whether some written data is not synced yet. If so, responses must wait."""
        return self.group_commit is not None and self.group_commit.is_pending

    @property
    def lossy_rounds(self) -> int:
        """Number of rounds of syncs in which some writes may not have been synced.

        A request that is handled in several steps compares this number with an earlier value. If the number has grown, writes of
        the request may be lost.
        """
        return 0 if self.group_commit is None else self.group_commit.lossy_rounds

    def is_synced(self, log: Log) -> bool:
        """Whether everything written to a log is as durable as promised."""
        return self.group_commit is None or self.group_commit.is_synced(log)

    def recovered(self, log: Log) -> None:
        """Record that the starting broker has opened a log, which may have unsynced records if the last process was killed."""
        if self.group_commit is not None and log.segments and log.recovery_point < log.log_end_offset:
            for segment in log.segments[log.segment_at(log.recovery_point) :]:
                self.group_commit.wrote(log, segment)

    def wrote_file(self, path: str, directory: str) -> None:
        """Record that a file was replaced as a whole. Later responses and effects wait for its sync."""
        if self.group_commit is not None:
            self.group_commit.wrote_file(path, directory)

    # delaying responses

    def answer(self, then: OnDurable) -> None:
        """Call ``then`` after all data written so far is durable. ``then(False)`` means that the writes may be lost."""
        if self.group_commit is None:
            then(True)
        else:
            self.group_commit.then(then)

    async def durable_before_response(self) -> bool:
        """Park the request until all data written so far is durable. Returns False if the writes may be lost."""
        if self.group_commit is None:
            return True
        durable: Pause[bool] = Pause(is_parked=True)
        self.group_commit.then(durable.end)
        return await durable

    # delaying effects

    def effect(self, then: Callable[[], None]) -> None:
        """Call ``then`` after all data written so far is durable. If the disk has failed, ``then`` is never called."""
        self._when_durable(lambda is_durable: then() if is_durable else None)

    def _when_durable(self, then: OnDurable) -> None:
        """Call ``then`` with True after all data written so far is durable; with False if the disk has failed.

        If one file is damaged, a round of syncs reports False for all files, so ``then`` waits for another round. If that file
        belongs to the waiting coordinator, its partition is offline already.
        """
        commit = self.group_commit
        if commit is None:
            then(True)
        else:
            commit.then(lambda is_durable: then(is_durable) if is_durable or commit.has_failed else self._when_durable(then))

    async def before_effect(self, log: Log, offset: int) -> bool:
        """Wait until the records of ``log`` below ``offset`` are committed and durable, if necessary for several rounds of syncs.

        Returns False if the records may be lost, because another broker leads the partition or the disk has failed.
        """
        if self.group_commit is None and offset <= log.high_watermark:
            return True
        committed: Pause[bool] = Pause(is_parked=True)
        self._behind(log, offset, committed.end)
        return await committed and await self.durable_before_effect()

    async def durable_before_effect(self) -> bool:
        """Wait, like `effect`, until all data written so far is durable. Returns False if the disk has failed."""
        if self.group_commit is None:
            return True
        durable: Pause[bool] = Pause(is_parked=True)
        self._when_durable(durable.end)
        return await durable

    # waiting for the high watermark

    def answer_after(self, log: Log, offset: int, then: OnDurable) -> None:
        """Call ``then`` after the records of ``log`` below ``offset`` are committed and durable.

        ``then(False)`` means that another broker leads the partition or the disk has failed, so that the records may be lost, or
        that `MAX_ANSWERS_A_LOG` responses are already waiting.
        """
        waiting = self._uncommitted.get(log) if offset > log.high_watermark else None
        if waiting is not None and len(waiting) >= MAX_ANSWERS_A_LOG:
            then(False)
            return

        def committed(is_committed: bool) -> None:
            if is_committed:
                self.answer(then)
            else:
                then(False)

        self._behind(log, offset, committed)

    async def before_response(self, log: Log, offset: int) -> bool:
        """Park the request until the records of ``log`` below ``offset`` are committed and durable. Returns False in the cases of
        `answer_after`."""
        if self.group_commit is None and offset <= log.high_watermark:
            return True
        committed: Pause[bool] = Pause(is_parked=True)
        self.answer_after(log, offset, committed.end)
        return await committed

    def _behind(self, log: Log, offset: int, then: OnDurable) -> None:
        """Call ``then`` with True when the records of ``log`` below ``offset`` are committed; with False if another broker
        leads."""
        assert offset <= log.log_end_offset, f"{log.name}: {offset} is above the log end {log.log_end_offset}"
        if offset > log.high_watermark:
            self._uncommitted.setdefault(log, []).append((offset, then))
        else:
            then(True)

    def committed(self, log: Log) -> None:
        """Call the waiters whose offset the high watermark of ``log`` has reached, in the order in which they began to wait."""
        waiting = self._uncommitted.pop(log, None)
        if not waiting:
            return
        high_watermark = log.high_watermark
        left = [one for one in waiting if one[0] > high_watermark]
        if left:
            self._uncommitted[log] = left
        for offset, then in waiting:
            if offset <= high_watermark:
                then(True)

    def forget(self, log: Log) -> None:
        """Drop the waiters of a partition that another broker now leads: its effects are dropped, and its responses become
        errors."""
        self.leaderships_lost += 1
        for _, then in self._uncommitted.pop(log, ()):
            then(False)

    def stop(self) -> None:
        """Drop all waiters before the directory is closed."""
        self._uncommitted.clear()
        if self.group_commit is not None:
            self.group_commit.stop()
