"""The partitions this broker leads: their logs, and the fetches that wait on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import structlog

from broker.durability import GroupCommit
from broker.env import Env
from protocol.errors import Code, KafkaError
from protocol.records import BatchHeader, EndTxnMarker
from storage.filesystem import is_damage
from storage.log import Appended, Log
from storage.log_dir import LogDirectory, TopicPartition, described
from storage.reading import Slice, read

T = TypeVar("T")

MARKER_COUNTS_BYTES = 1 << 40

log = structlog.get_logger("partition")


def disk_error(storage: Log, error: OSError) -> KafkaError:
    """What a client is told of a log whose files could not be read or written.

    Where they can no longer be trusted the log goes offline, with one line, and nothing is tried again until the next
    start. All others are served: Kafka takes the whole directory offline, and here there is only one.
    """
    reason = described(error)
    if not is_damage(error):
        log.error("disk_refused", partition=repr(storage), error=reason)
    elif storage.offline_reason is None:
        take_offline(storage, reason)
    return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{storage.topic}-{storage.partition}: {reason}")


def take_offline(storage: Log, reason: str) -> None:
    """Nothing is read or written before the next start. Says so once."""
    storage.offline_reason = reason
    log.error("partition_offline", partition=repr(storage), reason=reason, hint="mend the files, then start the broker again")


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
            raise disk_error(self.log, error) from error
        self.bytes_in += len(batch)
        self.messages_in += header.record_count
        self._grew(len(batch))
        return appended

    def append_own(self, batch: bytearray) -> Appended:
        """Append a batch of the broker's own. Raises `KafkaError`."""
        try:
            appended = self.log.append_own(batch, self._env.now_ms())
        except OSError as error:
            raise disk_error(self.log, error) from error
        self._grew(len(batch))
        return appended

    def append_marker(self, marker: EndTxnMarker, transaction_version: int) -> Appended:
        try:
            appended = self.log.append_marker(marker, self._env.now_ms(), transaction_version)
        except OSError as error:
            raise disk_error(self.log, error) from error
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

    # reading

    def read(self, fetch_offset: int, max_bytes: int, *, committed: bool, min_one_batch: bool) -> Slice:
        """Raises `KafkaError`, as `storage.reading.read` does, and KAFKA_STORAGE_ERROR."""
        self.log.check_online()
        try:
            return read(self.log, fetch_offset, max_bytes, committed=committed, min_one_batch=min_one_batch)
        except OSError as error:
            raise disk_error(self.log, error) from error

    def look_up(self, look: Callable[[Log], T]) -> T:
        """What ``look`` finds in the log. Raises KAFKA_STORAGE_ERROR."""
        self.log.check_online()
        try:
            return look(self.log)
        except OSError as error:
            raise disk_error(self.log, error) from error


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
        """Take a partition out of service. What its directory does not allow now is done by the next start."""
        partition = self._by_name.pop((topic, index), None)
        if partition is None:
            return
        try:
            self.directory.delete(topic, index, self._env.random_uuid().hex(), self._env.now_ms())
        except OSError as error:
            log.warning("directory_not_removed", partition=repr(partition.log), error=described(error))
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
