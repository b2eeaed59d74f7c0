"""The partitions of which this broker has a replica: their logs, and the requests that wait for changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, Unpack

from ottla.broker.loop.env import Env
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_errors import disk_refused, note_damage, storage_error, take_offline
from ottla.broker.partitions.disk_health import PROBE_MIN_BYTES, DiskHealth
from ottla.broker.partitions.kernel import Kernel
from ottla.coordinator.replication.in_sync import InSync
from ottla.coordinator.replication.leader import ACKS_ALL, EpochEnd, Leader, sole_leader
from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import BatchHeader, EndTxnMarker
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Damaged, described, is_damage
from ottla.storage.invariants import check_log
from ottla.storage.log import Appended, Log
from ottla.storage.reading import ReadOptions, Slice, read
from ottla.storage.walk import DamagedBatch

T = TypeVar("T")

DELETE_WORK = 20
"""Estimated time to rename a partition's directory, in units of 2 us."""

NO_LEADER = -1


class NotLeader(KafkaError):
    """The error NOT_LEADER_OR_FOLLOWER for a partition that another broker leads, with the leader's id (-1 for none) and epoch
    (KIP-951)."""

    def __init__(self, leader_id: int, leader_epoch: int) -> None:
        super().__init__(Code.NOT_LEADER_OR_FOLLOWER)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class Partition:
    """A partition's log, the state of its replicas, and ``waiters``: callbacks that are called once, soon after a change.

    The leader determines the high watermark; without other replicas it is the log end offset. A follower gets it from its leader.

    ``appended_bytes`` counts the bytes of data batches that consumers may read right after the append. If there are other
    replicas, it does not grow, because consumers wait for the high watermark. ``fetchable_bytes`` counts the bytes that followers
    may fetch. ``reveals`` counts the events that may make any amount of earlier data visible to consumers: markers, and moves of
    the high watermark. ``bytes_in`` and ``messages_in`` count the client batches that got an offset, including retries of a stored
    batch, as Kafka's BytesInPerSec and MessagesInPerSec (ReplicaManager.appendRecordsToLeader).
    """

    __slots__ = (
        "_disk",
        "_env",
        "_leader",
        "_lost",
        "_on_expansion",
        "_on_written",
        "appended_bytes",
        "barrier",
        "bytes_in",
        "fetchable_bytes",
        "leader_id",
        "log",
        "messages_in",
        "reveals",
        "waiters",
    )

    def __init__(
        self, env: Env, partition_log: Log, barrier: Barrier, disk: DiskHealth, broker_id: int, *, is_led: bool = True
    ) -> None:
        """``is_led`` means that this broker is the only replica and leads. Otherwise no leader is known yet."""
        self._env = env
        self.barrier = barrier
        self._on_written = barrier.on_written
        self._disk = disk
        self.log = partition_log
        self.appended_bytes = 0
        self.fetchable_bytes = 0
        self.reveals = 0
        self.bytes_in = 0
        self.messages_in = 0
        # Ordered by the time at which the callbacks began to wait.
        self.waiters: dict[Callable[[], None], None] = {}
        self._leader: Leader | None = None
        self._lost = 0
        self.leader_id = NO_LEADER
        self._on_expansion: Callable[[InSync], None] | None = None
        if is_led:
            self.lead(sole_leader(broker_id, partition_log.leader_epoch, partition_log.log_end_offset))

    # leaders and followers

    @property
    def is_led(self) -> bool:
        return self._leader is not None

    @property
    def leader(self) -> Leader:
        """The state of the leader epoch in which this broker leads. Raises `NotLeader`."""
        leader = self._leader
        if leader is None:
            raise NotLeader(self.leader_id, self.log.leader_epoch)
        return leader

    def check_leads(self) -> None:
        """Raise `NotLeader` unless this broker leads."""
        if self._leader is None:
            raise NotLeader(self.leader_id, self.log.leader_epoch)

    def lead(self, leader: Leader, on_expansion: Callable[[InSync], None] | None = None) -> None:
        """Begin a leader epoch in which this broker leads. When a follower has caught up, ``on_expansion`` is called with the
        in-sync set to request from the controller."""
        assert leader.leader_epoch >= self.log.leader_epoch, f"{self.log.name}: {leader.leader_epoch} after {self.log.leader_epoch}"
        self._leader, self.leader_id, self._on_expansion = leader, leader.broker_id, on_expansion
        self.log.leader_epoch = leader.leader_epoch
        self.advance()

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Begin a leader epoch in which this broker does not lead. Requests that wait for the high watermark get an error."""
        assert leader_epoch >= self.log.leader_epoch, f"{self.log.name}: {leader_epoch} after {self.log.leader_epoch}"
        self._leader, self.leader_id, self._on_expansion = None, leader_id, None
        self.log.leader_epoch = leader_epoch
        self.barrier.forget(self.log)
        self._lost = self.barrier.leaderships_lost
        if self.waiters:
            self._wake()

    def was_lost_since(self, leaderships_lost: int) -> bool:
        """Whether this broker does not lead, or lost the leadership after `Barrier.leaderships_lost` was ``leaderships_lost``."""
        return self._leader is None or self._lost > leaderships_lost

    def advance(self) -> None:
        """Raise the high watermark as far as the log end offsets of the replicas allow."""
        leader, log = self.leader, self.log
        leader.min_in_sync = log.config.min_insync_replicas
        self.commit(leader.high_watermark(log.log_end_offset, log.high_watermark, self._env.steady_ms()))

    def commit(self, high_watermark: int) -> None:
        """Set the high watermark, and wake the waiters."""
        if high_watermark > self.log.high_watermark:
            self.log.move_high_watermark(high_watermark)
            self.reveals += 1
            self.barrier.committed(self.log)
            if self.waiters:
                self._wake()

    def replica_fetched(self, broker_id: int, fetch_offset: int, start_offset: int, broker_epoch: int) -> None:
        """Record a follower's log end offset, which its fetch shows. Raises the errors of `Leader.fetched`."""
        leader, log = self.leader, self.log
        leader.min_in_sync = log.config.min_insync_replicas
        low_watermark = leader.low_watermark
        fetched = leader.fetched(
            broker_id,
            fetch_offset=fetch_offset,
            start_offset=start_offset,
            broker_epoch=broker_epoch,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            now_ms=self._env.steady_ms(),
        )
        self.commit(fetched.high_watermark)
        if fetched.expansion is not None and self._on_expansion is not None:
            self._on_expansion(fetched.expansion)
        if self.waiters and leader.low_watermark != low_watermark:
            self._wake()

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of all live replicas that the leader knows."""
        low_watermark = self.leader.low_watermark
        return self.log.log_start_offset if low_watermark is None else min(low_watermark, self.log.log_start_offset)

    def _check_replicas(self, acks: int) -> None:
        leader = self.leader
        leader.min_in_sync = self.log.config.min_insync_replicas
        leader.check_may_append(acks)

    # appending batches

    def append(
        self, batch: memoryview | bytearray, header: BatchHeader, *, implicit_add: bool = False, acks: int = ACKS_ALL
    ) -> Appended:
        """Append a checked batch of a client.

        Raises the errors of `Log.append_as_leader`, `NotLeader`, NOT_ENOUGH_REPLICAS, and KAFKA_STORAGE_ERROR.
        """
        leader = self._leader
        if leader is None or not leader.is_sole:
            self._check_replicas(acks)
        try:
            appended = self.log.append_as_leader(batch, header, self._env.now_ms(), implicit_add=implicit_add)
        except OSError as error:
            raise self._disk_error(error, len(batch)) from error
        self.bytes_in += len(batch)
        self.messages_in += header.record_count
        if not appended.is_duplicate:
            self._grew(len(batch))
        return appended

    def append_own(self, batch: bytearray) -> Appended:
        """Append a batch of a coordinator.

        Raises the errors of `Log.append_own`, `NotLeader`, NOT_ENOUGH_REPLICAS, and KAFKA_STORAGE_ERROR.
        """
        leader = self._leader
        if leader is None or not leader.is_sole:
            self._check_replicas(ACKS_ALL)
        try:
            appended = self.log.append_own(batch, self._env.now_ms())
        except OSError as error:
            raise self._disk_error(error, len(batch)) from error
        self._grew(len(batch))
        return appended

    def append_marker(self, marker: EndTxnMarker, transaction_version: int) -> Appended:
        """Append a marker. Raises the errors of `Log.append_marker`, `NotLeader`, NOT_ENOUGH_REPLICAS, and KAFKA_STORAGE_ERROR."""
        leader = self._leader
        if leader is None or not leader.is_sole:
            self._check_replicas(ACKS_ALL)
        try:
            appended = self.log.append_marker(marker, self._env.now_ms(), transaction_version)
        except OSError as error:
            raise self._disk_error(error, PROBE_MIN_BYTES) from error
        self.reveals += 1
        self._grew(0)
        return appended

    def _grew(self, by_bytes: int) -> None:
        log, leader = self.log, self._leader
        if leader is not None and leader.is_sole:
            # This broker is the only replica, so the high watermark is always the log end offset, and nothing waits for it.
            log.high_watermark = log.log_end_offset
            if CHECKED.whole_states:
                check_log(log)
            self.appended_bytes += by_bytes
        else:
            self.fetchable_bytes += by_bytes or 1
            self.advance()
        if self._on_written is not None or self._disk.is_refusing:
            self._written()
        if self.waiters:
            self._wake()

    def _written(self) -> None:
        if self._disk.is_refusing:
            self._disk.accepted(self.log.directory)
        if self._on_written is not None:
            self._on_written(self.log)

    def copied(self, high_watermark: int, log_start_offset: int, *, has_grown: bool) -> None:
        """Apply the high watermark and log start offset of the leader's fetch response, after its batches were appended."""
        if has_grown:
            self._written()
        self.commit(high_watermark)
        if log_start_offset > self.log.log_start_offset:
            self.log.start_at(log_start_offset)

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            self._env.call_soon(waiter)

    def wake_where_offline(self) -> None:
        """Call the waiters of a log that is offline, because it will never grow."""
        if self.waiters and self.log.is_offline:
            self._wake()

    def _disk_error(self, error: OSError, size_bytes: int) -> KafkaError:
        disk_refused(self._disk, self.log, error, size_bytes)
        self.wake_where_offline()
        return storage_error(self.log, error)

    # reading batches

    def read(self, offset: int, max_bytes: int, **options: Unpack[ReadOptions]) -> Slice:
        """Read batches with `storage.reading.read`. Raises its errors, and KAFKA_STORAGE_ERROR."""
        return self.look_up(lambda log: read(log, offset, max_bytes, **options))

    def look_up(self, query: Callable[[Log], T]) -> T:
        """The result of ``query``, which reads the log.

        Raises KAFKA_STORAGE_ERROR, and CORRUPT_MESSAGE for a damaged batch.
        """
        self.log.check_online()
        try:
            return query(self.log)
        except OSError as error:
            raise self.unreadable(error) from error
        except DamagedBatch:
            note_damage(self.log)
            raise

    def unreadable(self, error: OSError) -> KafkaError:
        if is_damage(error):
            take_offline(self.log, described(error))
            self.wake_where_offline()
        else:
            self._disk.errors.failed("log_read_failed", described(error), level="error", partition=repr(self.log))
        return storage_error(self.log, error)


class Partitions:
    """All partitions in service, by topic name and number."""

    def __init__(
        self,
        kernel: Kernel,
        open_missing: Callable[[str, int], Partition | None],
        led_elsewhere: Callable[[str, int], NotLeader | None],
    ) -> None:
        """``open_missing`` opens a partition that is not in service yet; it returns None if this broker has no replica.

        ``led_elsewhere`` returns the error for a partition that another broker leads; None if there is no such partition.
        """
        self._env = kernel.env
        self._broker_id = kernel.config.settings.node_id
        self._barrier = kernel.barrier
        self._disk = kernel.disk
        self.directory = kernel.directory
        self._by_name: dict[TopicPartition, Partition] = {}
        self._open_missing = open_missing
        self._led_elsewhere = led_elsewhere

    def add(self, partition_log: Log, *, is_led: bool = True) -> Partition:
        """Put a partition into service. ``is_led``: this broker is its only replica. Otherwise call `lead` or `follow` next."""
        partition = Partition(self._env, partition_log, self._barrier, self._disk, self._broker_id, is_led=is_led)
        self._by_name[partition_log.topic, partition_log.partition] = partition
        return partition

    def disk_refused(self, partition_log: Log, error: OSError) -> None:
        """Record a failed write of a background task to a log. The log may be the metadata log, which is not in `Partitions`."""
        disk_refused(self._disk, partition_log, error)
        partition = self.known(partition_log.topic, partition_log.partition)
        if partition is not None:
            partition.wake_where_offline()

    def sync_refused(self, path: str, error: OSError) -> None:
        """Record that a file or directory could not be opened for its sync. A damaged file takes only its own partition offline."""
        for partition_log in self.directory.logs.values():
            if isinstance(error, Damaged) and (path == partition_log.directory or path.startswith(f"{partition_log.directory}/")):
                self.disk_refused(partition_log, error)
                return
        self._disk.refused(self.directory.path, error)

    async def remove(self, topic: str, indexes: range) -> None:
        """Take partitions of a deleted topic out of service immediately, then rename their directories in steps.

        If a directory cannot be renamed, the next start sets it aside as a stray directory.
        """
        removed = []
        for index in indexes:
            partition = self._by_name.pop((topic, index), None)
            if partition is not None:
                partition.log.is_deleted = partition.log.is_failed = True
                removed.append(partition.log)
                if partition.waiters:
                    partition._wake()
        return await self._delete(removed)

    async def _delete(self, logs: list[Log]) -> None:
        pace, unique = Pace(), self._env.random_uuid().hex()
        for deleted in logs:
            try:
                self.directory.delete(deleted, unique, self._env.now_ms())
            except OSError as error:
                self._disk.errors.failed("directory_not_removed", error.strerror or str(error), partition=repr(deleted))
            if pace.spend(DELETE_WORK):
                await next_turn()

    def known(self, topic: str, index: int) -> Partition | None:
        """The partition if it is in service, else None."""
        return self._by_name.get((topic, index))

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition if this broker has a replica, else None. Opens the partition if it is not in service yet."""
        return self._by_name.get((topic, index)) or self._open_missing(topic, index)

    def get(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads. Raises UNKNOWN_TOPIC_OR_PARTITION or `NotLeader`."""
        partition = self._by_name.get((topic, index)) or self.replica(topic, index)
        if partition._leader is None:
            raise NotLeader(partition.leader_id, partition.log.leader_epoch)
        return partition

    def replica(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads or follows. Raises the errors of `get` if this broker has no replica."""
        partition = self._by_name.get((topic, index)) or self._open_missing(topic, index)
        if partition is None:
            raise self._led_elsewhere(topic, index) or KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def exists(self, topic: str, index: int) -> bool:
        """Whether the cluster has the partition, on whichever broker."""
        if (topic, index) in self._by_name:
            return True
        return self.find(topic, index) is not None or self._led_elsewhere(topic, index) is not None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def leader_epoch_end(partition: Partition, epoch: int) -> EpochEnd:
    """The largest leader epoch at or below ``epoch``, and its end offset; (-1, -1) if the log has none.

    Followers and clients use it to find the offset at which their logs diverge (Partition.lastOffsetForLeaderEpoch).
    """
    log = partition.log
    return EpochEnd(*log.epochs.end_offset_for(epoch, log.log_end_offset, log.leader_epoch))
