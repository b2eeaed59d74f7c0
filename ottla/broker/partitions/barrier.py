"""Decides when an answer to a client, or an effect of a decision, may happen: after the writes that it depends on are durable.

The caller names the log and offset that the answer or effect depends on, or lets it depend on everything written so far. It happens
when these writes are committed, that is below the high watermark, and as durable as ``ottla.durability`` promises. With ``process``
on one broker that is at once (`Barrier.never_waits`). With ``power`` it waits for `GroupCommit`. The partition's replication state
moves the high watermark, and says so (`broker.partitions.partitions.Partition`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ottla.broker.partitions.durability import GroupCommit, OnDurable
from ottla.storage.log import Log

MAX_ANSWERS_A_LOG = 100_000
"""How many answers and effects may wait for the high watermark of one log before further answers are refused. Effects, which follow
from what a coordinator has decided, wait in any number."""


class Replicated(Protocol):
    """A partition of a coordinator (`broker.partitions.partitions.Partition`)."""

    log: Log

    @property
    def is_led(self) -> bool: ...


class LogPosition(NamedTuple):
    """How much of a coordinator's log an answer tells of, and the leader epoch in which that is so."""

    leader_epoch: int
    end_offset: int

    @staticmethod
    def on(partition: Replicated) -> LogPosition:
        """All that a partition's log has now."""
        return LogPosition(partition.log.leader_epoch, partition.log.log_end_offset)


class Barrier:
    """The barrier of a broker: delays responses and effects until what they depend on is committed and durable.

    ``group_commit`` is None with ``ottla.durability=process``.
    """

    __slots__ = ("_uncommitted", "dependencies", "group_commit", "is_replicated", "leaderships_lost", "never_waits", "on_written")

    def __init__(self, group_commit: GroupCommit | None) -> None:
        self.group_commit = group_commit
        # For each log what waits for its high watermark, with the offset that this has to reach. A dropped log takes both along.
        self._uncommitted: WeakKeyDictionary[Log, list[tuple[int, OnDurable]]] = WeakKeyDictionary()
        self.never_waits = group_commit is None
        self.on_written: Callable[[Log], None] | None = None if group_commit is None else group_commit.wrote
        """Must be called with each log that has grown; None where nothing waits for the disk."""

        self.is_replicated = False
        """Whether partitions may have other replicas, so that answers of coordinators wait for high watermarks."""
        self.leaderships_lost = 0
        """How many times another broker was to lead a partition.

        A request that is handled over several turns of the loop notes this number. `Partition.was_lost_since` then tells whether
        what it has written may be gone, also where this broker leads again.
        """
        self.dependencies: dict[Replicated, LogPosition] = {}
        """The partitions of coordinators of which the answer tells that is being made."""

    def depend_on(self, partition: Replicated) -> None:
        """Note that the answer that is being made tells of what a coordinator's log has. Only where `is_replicated`."""
        self.dependencies[partition] = LogPosition.on(partition)

    def take_dependencies(self) -> dict[Replicated, LogPosition]:
        dependencies, self.dependencies = self.dependencies, {}
        return dependencies

    @property
    def is_pending(self) -> bool:
        """Whether data that was written so far is not on the disk yet, so that answers must wait."""
        return self.group_commit is not None and self.group_commit.is_pending

    @property
    def lossy_rounds(self) -> int:
        """How many times something that was written may not have reached the disk.

        A request that is handled over several turns of the loop compares this number: where it has grown, the request's own writes
        may be lost, also if nothing has to wait any more.
        """
        return 0 if self.group_commit is None else self.group_commit.lossy_rounds

    def is_synced(self, log: Log) -> bool:
        """Whether everything written to a log is as durable as promised."""
        return self.group_commit is None or self.group_commit.is_synced(log)

    def recovered(self, log: Log) -> None:
        """Note that a start has opened a log. A killed process may have left records in it that are not on the disk yet."""
        if self.group_commit is not None and log.segments and log.recovery_point < log.log_end_offset:
            for segment in log.segments[log.segment_at(log.recovery_point) :]:
                self.group_commit.wrote(log, segment)

    def wrote_file(self, path: str, directory: str) -> None:
        """Note that a file was replaced as a whole. Later answers and effects depend on the file as well."""
        if self.group_commit is not None:
            self.group_commit.wrote_file(path, directory)

    # answers

    def answer(self, then: OnDurable) -> None:
        """Call ``then`` after everything written so far is durable. ``then(False)`` means that the writes may be lost."""
        if self.group_commit is None:
            then(True)
        else:
            self.group_commit.then(then)

    # effects

    def effect(self, then: Callable[[], None]) -> None:
        """Call ``then`` after everything written so far is durable; never where the disk has failed.

        A round of syncs with a damaged file has synced all other files. So after such a round the effect waits for another round.
        Where the damaged file belongs to the coordinator that waits, that coordinator's partition is offline then.
        """

        def on_synced(is_durable: bool) -> None:
            if is_durable:
                then()
            elif self.group_commit is not None and not self.group_commit.has_failed:
                self.effect(then)

        if self.group_commit is None:
            then()
        else:
            self.group_commit.then(on_synced)

    def effect_after(self, log: Log, offset: int, then: Callable[[], None]) -> None:
        """Call ``then`` after the records of ``log`` below ``offset`` are committed and durable; never where they may be lost."""

        def committed(is_committed: bool) -> None:
            if is_committed:
                self.effect(then)

        self._behind(log, offset, committed)

    # the high watermark

    def answer_after(self, log: Log, offset: int, then: OnDurable) -> None:
        """Call ``then`` after the records of ``log`` below ``offset`` are committed and durable.

        ``then(False)`` means that they may be lost: another broker leads the partition by now, or the disk has failed. It is also
        called where `MAX_ANSWERS_A_LOG` wait already.
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

    def _behind(self, log: Log, offset: int, then: OnDurable) -> None:
        """Call ``then`` once the records of ``log`` below ``offset`` are committed, with False where another broker decides."""
        assert offset <= log.log_end_offset, f"{log.name}: {offset} is behind the log end {log.log_end_offset}"
        if offset > log.high_watermark:
            self._uncommitted.setdefault(log, []).append((offset, then))
        else:
            then(True)

    def committed(self, log: Log) -> None:
        """Carry out what waited for the high watermark of ``log``, which has moved, in the order of waiting."""
        waiting = self._uncommitted.pop(log, None)
        if not waiting:
            return
        left = [one for one in waiting if one[0] > log.high_watermark]
        if left:
            self._uncommitted[log] = left
        for offset, then in waiting:
            if offset <= log.high_watermark:
                then(True)

    def forget(self, log: Log) -> None:
        """Another broker leads the partition, and decides there: effects never happen, and answers are told."""
        self.leaderships_lost += 1
        for _, then in self._uncommitted.pop(log, ()):
            then(False)

    def stop(self) -> None:
        """Call no waiter any more, because the directory is about to be closed."""
        self._uncommitted.clear()
        if self.group_commit is not None:
            self.group_commit.stop()
