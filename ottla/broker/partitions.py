"""The partitions that this broker leads: their logs, and the requests that wait for the logs to grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import structlog

from ottla.broker.disk_health import PROBE_MIN_BYTES, DiskHealth
from ottla.broker.env import Env
from ottla.broker.gate import Gate
from ottla.coordinator.replication.leader import EpochEnd, Leader, sole_leader
from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import BatchHeader, EndTxnMarker
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Damaged, described, is_damage
from ottla.storage.invariants import check_log
from ottla.storage.log import Appended, Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.reading import Slice, read
from ottla.storage.steps import Pace, Steps

T = TypeVar("T")

DELETE_WORK = 20
"""The cost of renaming a partition's directory, in units of `storage.steps.Pace`."""

log = structlog.get_logger("partition")


def storage_error(partition_log: Log, error: OSError) -> KafkaError:
    return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{partition_log.name}: {described(error)}")


def disk_refused(disk: DiskHealth, partition_log: Log, error: OSError, size_bytes: int = PROBE_MIN_BYTES) -> None:
    """Note that a write to a log has failed.

    The write may be tried again, unless the file is `Damaged`: then the log goes offline.
    """
    if isinstance(error, Damaged):
        take_offline(partition_log, described(error))
    else:
        disk.refused(partition_log.directory, error, size_bytes)


def take_offline(partition_log: Log, reason: str) -> None:
    """Take a log offline until the next start, which checks its files again. Logs the reason once.

    All other logs are served. Kafka takes the whole directory offline instead, but ottla has only one directory.
    """
    if partition_log.offline_reason is None:
        partition_log.offline_reason = reason
        log_offline(partition_log)


def log_offline(partition_log: Log) -> None:
    log.error(
        "partition_offline",
        partition=repr(partition_log),
        reason=partition_log.offline_reason,
        hint="mend the files, then start the broker again",
    )


class Partition:
    """A log, the state of its replicas, and the callbacks that wait for it to grow. Each of ``waiters`` is called once, soon after
    a change.

    ``leader`` decides how far the log is committed. Where there is no other replica, that is the log's end after each append.

    ``appended_bytes`` counts the bytes of data batches. ``appended_markers`` counts markers separately, because one marker may make
    any amount of data visible to read_committed consumers. ``bytes_in`` and ``messages_in`` count the batches of clients that were
    answered with an offset, retries of a stored batch included, as Kafka's BytesInPerSec and MessagesInPerSec
    (ReplicaManager.appendRecordsToLeader).
    """

    __slots__ = (
        "_disk",
        "_env",
        "_gate",
        "_on_written",
        "appended_bytes",
        "appended_markers",
        "bytes_in",
        "leader",
        "log",
        "messages_in",
        "waiters",
    )

    def __init__(self, env: Env, partition_log: Log, gate: Gate, disk: DiskHealth, broker_id: int) -> None:
        self._env = env
        self._gate = gate
        self._on_written = gate.on_written
        self._disk = disk
        self.log = partition_log
        self.appended_bytes = 0
        self.appended_markers = 0
        self.bytes_in = 0
        self.messages_in = 0
        # In the order of waiting: the waiter that has waited longest is called first.
        self.waiters: dict[Callable[[], None], None] = {}
        self.lead(sole_leader(broker_id, partition_log.leader_epoch, partition_log.log_end_offset))

    def lead(self, leader: Leader) -> None:
        """Begin a leader epoch."""
        self.leader = leader
        self.log.leader_epoch = leader.leader_epoch
        self.commit(leader.high_watermark(self.log.log_end_offset, self.log.high_watermark, self._env.now_ms()))

    def commit(self, high_watermark: int) -> None:
        """Take over the high watermark that the replication state has decided on. Whoever waits for it goes on."""
        if high_watermark > self.log.high_watermark:
            self.log.move_high_watermark(high_watermark)
            self._gate.committed(self.log)
            if self.waiters:
                self._wake()

    def append(self, batch: memoryview | bytearray, header: BatchHeader, *, implicit_add: bool = False) -> Appended:
        """Append a checked batch of a client. Raises the errors of `Log.append_as_leader`, and KAFKA_STORAGE_ERROR."""
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
        """Append a batch of a coordinator. Raises the errors of `Log.append_own`, and KAFKA_STORAGE_ERROR."""
        try:
            appended = self.log.append_own(batch, self._env.now_ms())
        except OSError as error:
            raise self._disk_error(error, len(batch)) from error
        self._grew(len(batch))
        return appended

    def append_marker(self, marker: EndTxnMarker, transaction_version: int) -> Appended:
        try:
            appended = self.log.append_marker(marker, self._env.now_ms(), transaction_version)
        except OSError as error:
            raise self._disk_error(error, PROBE_MIN_BYTES) from error
        self.appended_markers += 1
        self._grew(0)
        return appended

    def _grew(self, by_bytes: int) -> None:
        log = self.log
        if self.leader.is_sole:
            # Nothing waits for the high watermark here, because it always is the log's end.
            log.high_watermark = log.log_end_offset
            if CHECKED.whole_states:
                check_log(log)
        else:
            self.commit(self.leader.high_watermark(log.log_end_offset, log.high_watermark, self._env.now_ms()))
        self.appended_bytes += by_bytes
        if self._disk.is_refusing:
            self._disk.accepted(log.directory)
        if self._on_written is not None:
            self._on_written(log)
        if self.waiters:
            self._wake()

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            self._env.call_soon(waiter)

    def wake_where_offline(self) -> None:
        """Call the waiters of a log that is offline, because it will never grow."""
        if self.waiters and self.log.is_offline:
            self._wake()

    def _disk_error(self, error: OSError, size_bytes: int) -> KafkaError:
        """The error for the client. A full disk is logged once, not for each refused write (`DiskHealth`)."""
        disk_refused(self._disk, self.log, error, size_bytes)
        self.wake_where_offline()
        return storage_error(self.log, error)

    # reading

    def read(self, fetch_offset: int, max_bytes: int, *, committed: bool, min_one_batch: bool) -> Slice:
        """Read batches. Raises the errors of `storage.reading.read`, and KAFKA_STORAGE_ERROR."""
        self.log.check_online()
        try:
            return read(self.log, fetch_offset, max_bytes, committed=committed, min_one_batch=min_one_batch)
        except OSError as error:
            raise self.unreadable(error) from error

    def look_up(self, query: Callable[[Log], T]) -> T:
        """The result of ``query``, which reads the log. Raises KAFKA_STORAGE_ERROR."""
        self.log.check_online()
        try:
            return query(self.log)
        except OSError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: OSError) -> KafkaError:
        if is_damage(error):
            take_offline(self.log, described(error))
            self.wake_where_offline()
        else:
            log.error("read_failed", partition=repr(self.log), error=described(error))
        return storage_error(self.log, error)


class NotLeader(KafkaError):
    """NOT_LEADER_OR_FOLLOWER of a partition that another broker leads, with the leader, or -1, and its epoch (KIP-951)."""

    def __init__(self, leader_id: int, leader_epoch: int) -> None:
        super().__init__(Code.NOT_LEADER_OR_FOLLOWER)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class Partitions:
    """All partitions in service, by topic and number."""

    def __init__(self, env: Env, directory: LogDirectory, gate: Gate, disk: DiskHealth, broker_id: int) -> None:
        self._env = env
        self._broker_id = broker_id
        self._gate = gate
        self._disk = disk
        self.directory = directory
        self._by_name: dict[TopicPartition, Partition] = {}
        self.open_missing: Callable[[str, int], Partition | None] = lambda topic, index: None
        """Puts a topic's partition into service if it is not yet; returns None where this broker does not lead such a partition."""
        self.led_elsewhere: Callable[[str, int], NotLeader | None] = lambda topic, index: None
        """The error for a partition that another broker leads; None where the topic has no such partition."""

    def add(self, partition_log: Log) -> Partition:
        partition = Partition(self._env, partition_log, self._gate, self._disk, self._broker_id)
        self._by_name[partition_log.topic, partition_log.partition] = partition
        return partition

    def disk_refused(self, partition_log: Log, error: OSError) -> None:
        """Note that the disk has refused background work on a log.

        The log may be that of the cluster's metadata, which is no partition.
        """
        disk_refused(self._disk, partition_log, error)
        partition = self.known(partition_log.topic, partition_log.partition)
        if partition is not None:
            partition.wake_where_offline()

    def sync_refused(self, path: str, error: OSError) -> None:
        """Note that a file or directory could not be opened for its sync. A damaged file takes only its own partition offline."""
        for partition_log in self.directory.logs.values():
            if isinstance(error, Damaged) and (path == partition_log.directory or path.startswith(f"{partition_log.directory}/")):
                self.disk_refused(partition_log, error)
                return
        self._disk.refused(self.directory.path, error)

    def remove(self, topic: str, indexes: range) -> Steps[None]:
        """Take partitions of a deleted topic out of service at once. The returned steps rename their directories.

        The next start sets a directory aside that cannot be renamed.
        """
        removed = []
        for index in indexes:
            partition = self._by_name.pop((topic, index), None)
            if partition is not None:
                partition.log.is_deleted = partition.log.is_failed = True
                removed.append(partition.log)
                if partition.waiters:
                    partition._wake()
        return self._delete(removed)

    def _delete(self, logs: list[Log]) -> Steps[None]:
        pace, unique = Pace(), self._env.random_uuid().hex()
        for deleted in logs:
            try:
                self.directory.delete(deleted, unique, self._env.now_ms())
            except OSError as error:
                log.warning("directory_not_removed", partition=repr(deleted), error=described(error))
            if pace.spend(DELETE_WORK):
                yield None

    def known(self, topic: str, index: int) -> Partition | None:
        """A partition that is in service already; None for others."""
        return self._by_name.get((topic, index))

    def find(self, topic: str, index: int) -> Partition | None:
        partition = self._by_name.get((topic, index))
        return self.open_missing(topic, index) if partition is None else partition

    def get(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION or `NotLeader`."""
        partition = self.find(topic, index)
        if partition is None:
            raise self.led_elsewhere(topic, index) or KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def exists(self, topic: str, index: int) -> bool:
        """Whether the cluster has the partition, whoever leads it."""
        if (topic, index) in self._by_name:
            return True
        return self.find(topic, index) is not None or self.led_elsewhere(topic, index) is not None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def leader_epoch_end(partition: Partition, epoch: int) -> EpochEnd:
    """The largest leader epoch at or below ``epoch``, and the offset at which it ends; (-1, -1) where the log has none.

    A follower and a client learn from it where their records part from this log's (Partition.lastOffsetForLeaderEpoch).
    """
    log = partition.log
    return EpochEnd(*log.epochs.end_offset_for(epoch, log.log_end_offset, partition.leader.leader_epoch))
