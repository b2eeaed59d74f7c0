"""The partitions this broker leads: their logs, and the fetches that wait on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from broker.durability import GroupCommit
from broker.env import Env
from protocol.errors import Code, KafkaError
from protocol.records import BatchHeader, EndTxnMarker
from storage.log import Appended, Log
from storage.log_dir import LogDirectory, TopicPartition

MARKER_COUNTS_BYTES = 1 << 40

log = structlog.get_logger("partition")


class Partition:
    """A log with those who wait for it to grow. ``waiters`` are called once each, soon after a change."""

    __slots__ = ("_commit", "_env", "appended_bytes", "bytes_in", "log", "messages_in", "waiters")

    def __init__(self, env: Env, storage: Log, commit: GroupCommit | None) -> None:
        self._env = env
        self._commit = commit
        self.log = storage
        self.appended_bytes = 0
        self.bytes_in = 0
        self.messages_in = 0
        # A dict for its order: whoever waits longest is called first.
        self.waiters: dict[Callable[[], None], None] = {}

    def append(self, batch: memoryview | bytearray, header: BatchHeader, *, implicit_add: bool = False) -> Appended:
        """Append a checked batch of a client. Raises `KafkaError`."""
        try:
            appended = self.log.append_as_leader(batch, header, self._env.now_ms(), implicit_add=implicit_add)
        except OSError as error:
            raise self._disk_error(error) from error
        self.bytes_in += len(batch)
        self.messages_in += header.record_count
        self._grew(len(batch))
        return appended

    def append_own(self, batch: bytearray) -> Appended:
        """Append a batch of the broker's own. Raises `KafkaError`."""
        try:
            appended = self.log.append_own(batch, self._env.now_ms())
        except OSError as error:
            raise self._disk_error(error) from error
        self._grew(len(batch))
        return appended

    def append_marker(self, marker: EndTxnMarker, transaction_version: int) -> Appended:
        try:
            appended = self.log.append_marker(marker, self._env.now_ms(), transaction_version)
        except OSError as error:
            raise self._disk_error(error) from error
        # A marker may lay open any amount of data to a committed reader: whoever waits must look.
        self._grew(MARKER_COUNTS_BYTES)
        return appended

    def _grew(self, by_bytes: int) -> None:
        self.appended_bytes += by_bytes
        if self._commit is not None:
            self._commit.wrote(self.log)
        if self.waiters:
            self._wake()

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            self._env.call_soon(waiter)

    def _disk_error(self, error: OSError) -> KafkaError:
        log.error("append_failed", partition=repr(self.log), error=str(error))
        return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{self.log.topic}-{self.log.partition}: {error.strerror or error}")


class Partitions:
    """All partitions by topic and number."""

    def __init__(self, env: Env, directory: LogDirectory, commit: GroupCommit | None) -> None:
        self._env = env
        self._commit = commit
        self.directory = directory
        self._by_name: dict[TopicPartition, Partition] = {}

    def add(self, storage: Log) -> Partition:
        partition = Partition(self._env, storage, self._commit)
        self._by_name[storage.topic, storage.partition] = partition
        return partition

    def remove(self, topic: str, index: int) -> None:
        partition = self._by_name.pop((topic, index), None)
        if partition is not None:
            self.directory.delete(topic, index, self._env.random_uuid().hex(), self._env.now_ms())
            partition._wake()

    def find(self, topic: str, index: int) -> Partition | None:
        return self._by_name.get((topic, index))

    def get(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self._by_name.get((topic, index))
        if partition is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def check_leader_epoch(partition: Partition, asked: int) -> None:
    """Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH; -1 asks for nothing (Partition.checkCurrentLeaderEpoch)."""
    if asked < 0 or asked == partition.log.leader_epoch:
        return
    raise KafkaError(Code.FENCED_LEADER_EPOCH if asked < partition.log.leader_epoch else Code.UNKNOWN_LEADER_EPOCH)
