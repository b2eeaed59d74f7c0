"""Opens and removes the replicas that the metadata assigns to this broker, and makes them leaders or followers.

Used both by a broker that is its own controller and by a member of a cluster (ReplicaManager.applyDelta).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec
import structlog

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.config.topics import log_config
from ottla.broker.metadata.metadata_listener import Coordinator, MetadataFaults
from ottla.broker.partitions.disk_errors import log_offline
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import NotLeader, Partition, Partitions
from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE, ClusterState
from ottla.coordinator.metadata.metadata_delta import MetadataDelta
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.replication.leader import sole_leader
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import described
from ottla.storage.recovery import RecoveryReport
from ottla.storage.transaction_history import TransactionHistory

WORK_AT_ONCE = 1_500
"""Maximum time, in units of 2 us, for the part of a metadata change that is applied at once. The rest is applied in steps."""
OPEN_WORK = 15
"""Estimated time to put a new partition into service, in units of 2 us."""
SETTLE_WORK = 8
"""Estimated time to make a partition in service a leader or follower, in units of 2 us."""
LOG_CONFIGS_KEPT = 1_000

STRAY_HINT = (
    "the cluster has no topic of this name, or a newer topic; no data is deleted. If the controller has lost the topic,"
    " 'ottla cluster rebuild-controller' restores it"
)
"""Advice in the log event of a stray directory, for a person who searches for its data."""

log = structlog.get_logger("cluster")


class ReplicaActions(Protocol):
    """Makes a partition with a replica on this broker follow its registration in the metadata."""

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Lead a partition: in a new leader epoch, or with changed replicas or a changed in-sync set in the current epoch."""
        ...

    def follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Follow the partition's leader. If there is no leader, wait for a leader."""
        ...

    def stop(self, partition: Partition) -> None:
        """Stop a replica that was removed from this broker, or whose topic was deleted. Called before its partition is removed."""
        ...

    def brokers_changed(self) -> None:
        """Called after brokers were registered, unregistered, fenced or unfenced."""
        ...


class SoleReplicas:
    """`ReplicaActions` of a broker that is the whole cluster: it leads every partition as the only replica."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        partition.lead(sole_leader(self._broker_id, registration.leader_epoch, partition.log.log_end_offset))

    def follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        partition.follow(registration.leader, registration.leader_epoch)

    def stop(self, partition: Partition) -> None:
        pass

    def brokers_changed(self) -> None:
        pass


class _Move(msgspec.Struct, frozen=True, kw_only=True):
    """A change of leadership in a coordinator's topic. ``leader_epoch`` is None if this broker no longer leads the partition."""

    topic: str
    index: int
    leader_epoch: int | None


class LocalPartitions:
    """Keeps `Partitions` in line with the cluster's metadata: `begin` when the broker starts, `apply` after each change."""

    def __init__(self, kernel: Kernel, state: ClusterState, replicas: ReplicaActions) -> None:
        self._env = kernel.env
        self._stepping = kernel.stepping
        self._config = kernel.config
        self._directory = kernel.directory
        self._disk = kernel.disk
        self._barrier = kernel.barrier
        self.partitions = Partitions(kernel, self.open_missing, self.led_elsewhere)
        self._state = state
        self._replicas = replicas
        self.coordinators: dict[str, Coordinator] = {}
        """The coordinators by internal topic, as passed to `begin`."""
        self.has_lost = False
        """Whether recovery has truncated a log. This may happen even in a directory with a clean shutdown file."""
        # The transactions that recovery has read in each partition, to find those that lost records or markers.
        self._read: dict[TopicPartition, TransactionHistory] = {}
        # Topic id and number of the partitions to which the metadata will be applied in later steps, in this order.
        self._unsettled: dict[tuple[bytes, int], None] = {}
        self._is_settling = False
        self._log_configs: dict[tuple[BrokerConfig, frozenset[tuple[str, str]]], LogConfig] = {}

    def take_read(self) -> dict[TopicPartition, TransactionHistory]:
        """Return the transactions that recovery has read in each partition, and drop them from memory."""
        read, self._read = self._read, {}
        return read

    # opening replicas at the broker's start

    def begin(self, coordinators: Mapping[str, Coordinator]) -> None:
        """Put every replica into service, set stray directories aside, and load ``coordinators`` in their order."""
        self.coordinators.update(coordinators)
        on_disk, set_aside = set(), set()
        for name, index in list(self._directory.partitions_on_disk()):
            if self._belongs(name, index):
                on_disk.add((name, index))
            elif (name, index) != (METADATA_TOPIC, 0):
                set_aside.add((name, index))
                self._set_aside(name, index)
        moves: list[_Move] = []
        for topic in self._state.topics.values():
            config = self.log_config(topic.name)
            for index, registration in enumerate(topic.partitions):
                if self._is_replica(topic, registration):
                    where = (topic.name, index)
                    # While a member of a cluster was down, a topic may have been deleted and recreated. Then the checkpoints
                    # describe the directory that was set aside, not the new topic. On a broker without a cluster this cannot
                    # happen, so the directory is damaged, and the partition goes offline.
                    was_made_anew = where in set_aside and not self._state.is_alone
                    exists = where in on_disk or (not was_made_anew and self._directory.was_written(*where))
                    self._assign(self._open(topic, index, config, exists=exists), registration, moves)
        self._directory.loaded()
        for name in self.coordinators:
            self._move([move for move in moves if move.topic == name])

    def _belongs(self, name: str, index: int) -> bool:
        """Whether a directory belongs to a replica of an existing topic, not of a deleted topic of the same name."""
        topic = self._state.topics.get(name)
        if topic is None or index >= topic.partition_count or not self._is_replica(topic, topic.partitions[index]):
            return False
        try:
            return self._directory.topic_id_on_disk(name, index) in (topic.topic_id, None)
        except OSError:
            # The topic id in the directory cannot be read. When the partition is opened, it goes offline.
            return True

    def _set_aside(self, name: str, index: int) -> None:
        directory = self._directory
        if not directory.fs.is_dir(directory.directory_of(name, index)):
            return
        try:
            renamed = directory.set_aside(name, index, self._env.random_uuid().hex())
        except OSError as error:
            log.warning("stray_directory_not_set_aside", directory=directory.directory_of(name, index), reason=described(error))
        else:
            log.warning("stray_directory_set_aside", directory=renamed, hint=STRAY_HINT)

    # applying metadata changes

    def apply(self, delta: MetadataDelta, faults: MetadataFaults) -> None:
        """Apply a metadata change in this order: deleted topics, followers, leaders, coordinators."""
        if delta.has_changed_brokers:
            faults.attempt(self._replicas.brokers_changed, "brokers")
        for topic in delta.deleted:
            faults.attempt(partial(self._remove, topic, range(topic.partition_count)), "remove", topic=topic.name)
        changed = list(self._changed(delta.partitions))
        led = [self._leads(topic.partitions[index]) for topic, index in changed]
        wanted = [where for where, leads in zip(changed, led, strict=True) if not leads]
        wanted += [where for where, leads in zip(changed, led, strict=True) if leads]
        for topic_id in delta.created:
            topic = self._state.topics_by_id[topic_id]
            wanted += [(topic, index) for index in range(topic.partition_count)]
        moves: list[_Move] = []
        for topic, index in self._first(wanted):
            faults.attempt(partial(self._settle, topic, index, moves), "change", topic=topic.name, partition=index)
        self._move_all(moves, faults)

    def _changed(self, partitions: dict[bytes, dict[int, None]]) -> Iterable[tuple[Topic, int]]:
        for topic_id, indexes in partitions.items():
            topic = self._state.topics_by_id.get(topic_id)
            if topic is not None:
                yield from ((topic, index) for index in indexes if 0 <= index < topic.partition_count)

    def _move_all(self, moves: list[_Move], faults: MetadataFaults) -> None:
        for move in moves:
            faults.attempt(partial(self._move, [move]), "coordinator", topic=move.topic, partition=move.index)

    # applying large metadata changes in steps

    def _first(self, wanted: Sequence[tuple[Topic, int]]) -> Sequence[tuple[Topic, int]]:
        """Return the partitions to which the caller applies the change now. Further partitions are queued for later steps.

        A queued partition stays as it was before the change until its step. A new partition is opened earlier if a request needs
        it.
        """
        count, left = 0, WORK_AT_ONCE
        while count < len(wanted) and left > 0:
            left -= self._work_of(*wanted[count])
            count += 1
        self._unsettled.update(dict.fromkeys((topic.topic_id, index) for topic, index in wanted[count:]))
        if self._unsettled and not self._is_settling:
            self._is_settling = True
            self._stepping.run(self._settle_rest())
        return wanted[:count]

    def _work_of(self, topic: Topic, index: int) -> int:
        return OPEN_WORK if self.partitions.known(topic.name, index) is None else SETTLE_WORK

    async def _settle_rest(self) -> None:
        """Apply to each queued partition the metadata that is current at its step."""
        pace, faults = Pace(), MetadataFaults()
        while self._unsettled:
            topic_id, index = next(iter(self._unsettled))
            topic = self._state.topics_by_id.get(topic_id)
            if topic is None:
                del self._unsettled[topic_id, index]
                continue
            work = self._work_of(topic, index)
            moves: list[_Move] = []
            faults.attempt(partial(self._settle, topic, index, moves), "change", topic=topic.name, partition=index)
            self._move_all(moves, faults)
            if pace.spend(work):
                await next_turn()
        self._is_settling = False
        faults.raise_first()

    def open_missing(self, name: str, index: int) -> Partition | None:
        """Return a replica; opens the replica if it is not in service yet. Returns None if this broker has no such replica."""
        topic = self._state.topics.get(name)
        if topic is None or not 0 <= index < topic.partition_count:
            return None
        partition = self.partitions.known(name, index)
        if partition is None:
            moves: list[_Move] = []
            partition = self._settle(topic, index, moves)
            self._move(moves)
        return partition

    def led_elsewhere(self, name: str, index: int) -> NotLeader | None:
        """The error for a partition that this broker does not lead; None if this broker leads it or there is no such partition."""
        topic = self._state.topics.get(name)
        if topic is None or not 0 <= index < topic.partition_count or self._leads(topic.partitions[index]):
            return None
        return NotLeader(topic.partitions[index].leader, topic.partitions[index].leader_epoch)

    def _leads(self, registration: PartitionRegistration) -> bool:
        return self._state.is_alone or registration.leader == self._state.node_id

    def _is_replica(self, topic: Topic, registration: PartitionRegistration) -> bool:
        """Whether this broker has a replica. A topic with the metadata log's name has none, because the log uses its directory."""
        return topic.name != METADATA_TOPIC and (self._state.is_alone or self._state.node_id in registration.replicas)

    def _settle(self, topic: Topic, index: int, moves: list[_Move]) -> Partition | None:
        self._unsettled.pop((topic.topic_id, index), None)
        registration = topic.partitions[index]
        partition = self.partitions.known(topic.name, index)
        if not self._is_replica(topic, registration):
            if partition is not None:
                if partition.is_led:
                    moves.append(_Move(topic=topic.name, index=index, leader_epoch=None))
                self._remove(topic, range(index, index + 1))
            return None
        if partition is None:
            partition = self._open(topic, index, self.log_config(topic.name), exists=False)
        self._assign(partition, registration, moves)
        return partition

    def _assign(self, partition: Partition, registration: PartitionRegistration, moves: list[_Move]) -> None:
        topic, index = partition.log.topic, partition.log.partition
        led_epoch = partition.leader.leader_epoch if partition.is_led else None
        if self._leads(registration):
            self._replicas.lead(partition, registration)
            if topic in self.coordinators and led_epoch != registration.leader_epoch:
                moves.append(_Move(topic=topic, index=index, leader_epoch=registration.leader_epoch))
        else:
            self._replicas.follow(partition, registration)
            if led_epoch is not None:
                moves.append(_Move(topic=topic, index=index, leader_epoch=None))

    def _move(self, moves: list[_Move]) -> None:
        for move in moves:
            coordinator = self.coordinators.get(move.topic)
            if coordinator is None:
                continue
            if move.leader_epoch is None:
                coordinator.resigned(move.index)
            else:
                coordinator.elected(move.index, move.leader_epoch)

    def _open(self, topic: Topic, index: int, config: LogConfig, *, exists: bool) -> Partition:
        if exists:
            partition_log, report = self._directory.open(topic.name, index, config, self._env.now_ms(), topic.topic_id)
            self.has_lost |= has_losses(partition_log.directory, report)
            if partition_log.offline_reason is not None:
                log_offline(partition_log)
            elif report.history is not None:
                self._read[topic.name, index] = report.history
        else:
            partition_log = self._directory.create(topic.name, index, config, topic.topic_id)
            if self._directory.has_forgotten:
                self._directory.has_forgotten = False
                for path in self._directory.checkpoints.paths:
                    self._barrier.wrote_file(path, self._directory.path)
        # After a failed sync no log accepts appends; this includes logs that are opened later.
        partition_log.is_failed |= self._disk.has_failed
        return self.partitions.add(partition_log, is_led=False)

    def _remove(self, topic: Topic, indexes: range) -> None:
        for index in indexes:
            partition = self.partitions.known(topic.name, index)
            if partition is not None:
                self._replicas.stop(partition)
        self._stepping.start(self.partitions.remove(topic.name, indexes))

    # applying changed configs of topics

    def log_config(self, topic: str) -> LogConfig:
        """The log settings of a topic, cached by the topic's configs, because most topics have equal configs or none."""
        own = self._state.config_of(TOPIC_RESOURCE, topic)
        key = (self._config.current, frozenset(own.items()))
        known = self._log_configs.get(key)
        if known is None:
            if len(self._log_configs) >= LOG_CONFIGS_KEPT:
                self._log_configs.clear()
            known = self._log_configs[key] = log_config(own, self._config.current)
        return known

    def set_log_configs(self, topics: Iterable[str]) -> None:
        """Apply the current settings of topics to their logs."""
        for name in topics:
            config = self.log_config(name)
            for index in range(self._state.topics[name].partition_count):
                partition = self.partitions.known(name, index)
                if partition is not None:
                    partition.log.config = config


def has_losses(directory: str, report: RecoveryReport) -> bool:
    """Log which records recovery truncated and which files it rebuilt. Returns whether it truncated any records."""
    for loss in report.losses:
        log.warning("log_tail_truncated", directory=directory, reason=loss)
    if report.rebuilt:
        log.warning("log_rebuilt", directory=directory, rebuilt=report.rebuilt)
    return bool(report.losses)
