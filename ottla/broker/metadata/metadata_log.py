"""The metadata log in the directory of a broker that is its own controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from ottla.broker.metadata.local_partitions import has_losses
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition
from ottla.broker.partitions.runtime import Runtime
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.replication.leader import sole_leader
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.operations.metadata_log import METADATA_CONFIG
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.storage.identity import DirectoryError

MAX_OBSERVERS = 1_000
UNKNOWN_MS = -1

T = TypeVar("T")


class Observer(msgspec.Struct, kw_only=True):
    """A broker that fetches the metadata log. ``end_offset`` is the end of its copy; ``fetched_ms`` is the time of its last
    fetch."""

    replica_id: int
    directory_id: bytes
    end_offset: int
    fetched_ms: int
    caught_up_ms: int = UNKNOWN_MS


class MetadataLog(Protocol):
    """Appends decisions on the cluster's metadata to a log. On `KafkaError` nothing has changed."""

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    def observers(self) -> list[Observer]:
        """The brokers that fetch the log from this process, sorted by id."""
        ...

    def execute(self, result: Result[T]) -> T:
        """Append the records of a decision, and replay them."""
        ...

    async def execute_large(self, command: Callable[[], Result[T]], before_append: Callable[[], None]) -> T:
        """Like `execute`, for a command with thousands of records, which a worker thread computes (`Runtime.execute_large`)."""
        ...


def _no_metadata(reason: str) -> DirectoryError:
    return DirectoryError(f"cannot start without the cluster's metadata: {reason}; restore it, or start with another directory")


def metadata_not_written(error: KafkaError) -> DirectoryError:
    """The error for a broker that cannot start, because the metadata log refused a record."""
    return DirectoryError(f"cannot write the cluster's metadata: {error.message}; free disk space, then restart the broker")


class LocalMetadataLog:
    """The metadata log of a broker that is its own controller. The constructor opens it, `load` replays it. Both raise
    `DirectoryError`."""

    def __init__(self, kernel: Kernel, state: ClusterState, carry_out_effect: Callable[[Effect], None] | None = None) -> None:
        env = kernel.env
        self._state = state
        self._observers: dict[int, Observer] = {}
        self.log, report = kernel.directory.open(METADATA_TOPIC, 0, METADATA_CONFIG, env.now_ms())
        self.has_lost = has_losses(self.log.directory, report)
        """Whether recovery has truncated the log."""
        if self.log.offline_reason is not None:
            raise _no_metadata(self.log.offline_reason)
        # This partition is not in `Partitions`, so that no client request can reach it.
        self.partition = Partition(env, self.log, kernel.barrier, kernel.disk, state.node_id)
        self._runtime = Runtime(env, self.partition, self._replay, kernel.stepping, carry_out_effect, refused=lambda error: error)

    def _replay(self, record: LogRecord, offset: int, producer_id: int) -> None:
        self._state.replay(record, offset)

    def load(self) -> bool:
        """Replay the log; returns whether it is empty. With ``ottla.durability=power`` responses wait until the replayed records
        are synced."""
        try:
            is_new = self._runtime.load() == 0
        except KafkaError as error:
            raise _no_metadata(str(error.message)) from error
        self.partition.barrier.recovered(self.log)
        return is_new

    def begin_epoch(self) -> None:
        """Begin a leader epoch that is higher than all epochs in the log.

        If other brokers have fetched records that a crash removed, the new epoch shows them where the logs diverge.
        """
        epoch = max(self.log.epochs.latest, 0) + 1
        self.partition.lead(sole_leader(self._state.node_id, epoch, self.log.log_end_offset))

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def leader_epoch(self) -> int:
        return self.log.leader_epoch

    def fetched(self, replica_id: int, directory_id: bytes, offset: int, now_ms: int) -> None:
        """Record that a broker has fetched all records below ``offset``."""
        if replica_id not in self._observers:
            if len(self._observers) >= MAX_OBSERVERS:
                return
            self._observers[replica_id] = Observer(
                replica_id=replica_id, directory_id=directory_id, end_offset=offset, fetched_ms=now_ms
            )
        observer = self._observers[replica_id]
        observer.directory_id, observer.end_offset, observer.fetched_ms = directory_id, offset, now_ms
        if offset >= self.log.log_end_offset:
            observer.caught_up_ms = now_ms

    def observers(self) -> list[Observer]:
        return [self._observers[replica_id] for replica_id in sorted(self._observers)]

    def forget_observers(self, before_ms: int) -> None:
        """Forget the observers that have not fetched since ``before_ms``."""
        self._observers = {key: observer for key, observer in self._observers.items() if observer.fetched_ms >= before_ms}

    def execute(self, result: Result[T]) -> T:
        return self._runtime.execute(result)

    async def execute_large(self, command: Callable[[], Result[T]], before_append: Callable[[], None]) -> T:
        return await self._runtime.execute_large(command, before_append)
