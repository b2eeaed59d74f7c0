"""The cluster's metadata and its log: creates and deletes topics, sets configs and features, allocates producer ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.broker.config.topics import log_config
from ottla.broker.disk_health import DiskHealth
from ottla.broker.env import Env
from ottla.broker.gate import Gate
from ottla.broker.live_config import LiveConfig
from ottla.broker.log_failures import log_offline
from ottla.broker.partitions import NotLeader, Partition, Partitions
from ottla.broker.runtime import Runtime
from ottla.broker.stepping import Stepping
from ottla.coordinator.client_quotas import Entity
from ottla.coordinator.cluster import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterState
from ottla.coordinator.result import LogRecord
from ottla.coordinator.topics import Topic
from ottla.operations.metadata_log import DEFAULT_FEATURES, METADATA_CONFIG, levels_with
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import described
from ottla.storage.identity import DirectoryError
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.recovery import RecoveryReport
from ottla.storage.steps import Pace, Steps, run_first_step
from ottla.storage.transaction_history import TransactionHistory

SUPPORTED_FEATURES = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, 33),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}

PARTITIONS_AT_ONCE = 100
OPEN_WORK = 15
"""The cost of putting a new partition into service, in units of `storage.steps.Pace`."""
LOG_CONFIGS_KEPT = 1_000

log = structlog.get_logger("cluster")


def _no_metadata(reason: str) -> DirectoryError:
    return DirectoryError(f"cannot start without the cluster's metadata: {reason}; restore it, or start with another directory")


class Cluster:
    """The shard of the cluster's metadata, its log, and the partitions of the topics in it."""

    def __init__(
        self,
        *,
        env: Env,
        stepping: Stepping,
        config: LiveConfig,
        directory: LogDirectory,
        disk: DiskHealth,
        gate: Gate,
        partitions: Partitions,
    ) -> None:
        self._env = env
        self._stepping = stepping
        self._config = config
        self._directory = directory
        self._disk = disk
        self._gate = gate
        self._partitions = partitions
        self.on_topic_deleted: list[Callable[[str], None]] = []
        """Called in order with the name of each deleted topic, after its partitions are out of service."""
        self.on_topic_changed: list[Callable[[str], None]] = []
        """Called with the name of a topic that was created, has got more partitions, or was deleted."""
        self.on_transaction_version: list[Callable[[int], None]] = []
        """Called in order with the finalized level of ``transaction.version`` when features have changed."""
        self.on_features_changed: list[Callable[[], None]] = []
        """Called in order when features have changed."""
        # Whether recovery has cut a log. This may happen even in a directory that is marked clean.
        self.has_lost = False
        self._least_producer_id = 0
        self.state = ClusterState(config.settings.node_id, ignores_case=directory.ignores_case())
        metadata_log, report = directory.open(METADATA_TOPIC, 0, METADATA_CONFIG, env.now_ms())
        self._note_losses(metadata_log.directory, report)
        self.has_lost_metadata = self.has_lost
        if metadata_log.offline_reason is not None:
            raise _no_metadata(metadata_log.offline_reason)
        # The partition of the metadata log is not added to `Partitions`, so that no client can name it.
        metadata = Partition(env, metadata_log, gate, disk, config.settings.node_id)
        self._runtime = Runtime(env, metadata, self._replay, stepping, refused=lambda error: error)
        partitions.open_missing = self.open_missing
        partitions.led_elsewhere = self.led_elsewhere
        self._log_configs: dict[tuple[BrokerConfig, frozenset[tuple[str, str]]], LogConfig] = {}
        # The transactions that recovery has read in each partition, kept until the start has searched them for torn transactions.
        self._read: dict[TopicPartition, TransactionHistory] = {}

    @property
    def metadata_log(self) -> Log:
        return self._runtime.partition.log

    def take_read(self) -> dict[TopicPartition, TransactionHistory]:
        """The transactions that recovery has read in each partition. They are dropped here, so this may be called once."""
        read, self._read = self._read, {}
        return read

    def _replay(self, record: LogRecord, offset: int, producer_id: int) -> None:
        self.state.replay(record, offset)

    def load(self, features: Mapping[str, int]) -> None:
        """Replay the metadata log, set the feature levels, and open every partition.

        A new directory gets the default feature levels besides ``features``. Raises `DirectoryError` where the log cannot be read.
        """
        try:
            fresh = self._runtime.load() == 0
        except KafkaError as error:
            raise _no_metadata(str(error.message)) from error
        changed = levels_with(DEFAULT_FEATURES, features) if fresh else dict(features)
        self._runtime.execute(self.state.set_features(changed))
        self._config.set_dynamic(self.dynamic_broker_configs)
        self._drop_metadata_topic()
        on_disk = set()
        for name, index in list(self._directory.partitions_on_disk()):
            if self._belongs(name, index):
                on_disk.add((name, index))
            elif (name, index) != (METADATA_TOPIC, 0):
                self._set_aside(name, index)
        for topic in self.state.topics.values():
            config = self.log_config(topic.name)
            for index in (index for index in range(topic.partition_count) if self._leads(topic, index)):
                exists = (topic.name, index) in on_disk or self._directory.was_written(topic.name, index)
                self._open(topic, index, config, exists=exists)
        self._directory.loaded()

    def _drop_metadata_topic(self) -> None:
        """Delete a topic with the metadata log's name, and keep the log.

        Earlier versions of ottla let a client create such a topic, and wrote its batches into the metadata log. Replay skips them.
        """
        if METADATA_TOPIC in self.state.topics:
            self._runtime.execute(self.state.delete_topic(METADATA_TOPIC))
            log.warning("topic_over_the_metadata_removed", topic=METADATA_TOPIC, hint="what clients wrote to it is not served")

    def _set_aside(self, name: str, index: int) -> None:
        directory = self._directory
        if not directory.fs.is_dir(directory.directory_of(name, index)):
            return
        try:
            renamed = directory.set_aside(name, index, self._env.random_uuid().hex())
        except OSError as error:
            log.warning("stray_directory_in_the_way", directory=directory.directory_of(name, index), error=described(error))
        else:
            log.warning("stray_directory_set_aside", directory=renamed)

    def _belongs(self, name: str, index: int) -> bool:
        """Whether a directory belongs to the present topic, and not to a deleted topic of the same name."""
        topic = self.state.topics.get(name)
        if topic is None or index >= topic.partition_count:
            return False
        try:
            return self._directory.topic_id_on_disk(name, index) in (topic.topic_id, None)
        except OSError:
            # The directory's topic id cannot be read. Opening the partition then takes it offline.
            return True

    def _open(self, topic: Topic, index: int, config: LogConfig, *, exists: bool) -> Partition:
        if exists:
            partition_log, report = self._directory.open(topic.name, index, config, self._env.now_ms(), topic.topic_id)
            self._note_losses(partition_log.directory, report)
            if partition_log.offline_reason is not None:
                log_offline(partition_log)
            elif report.history is not None:
                self._read[topic.name, index] = report.history
        else:
            partition_log = self._directory.create(topic.name, index, config, topic.topic_id)
            if self._directory.has_forgotten:
                self._directory.has_forgotten = False
                for path in self._directory.checkpoints.paths:
                    self._gate.wrote_file(path, self._directory.path)
        partition_log.leader_epoch = topic.partitions[index].leader_epoch
        # After a failed sync no log accepts appends, new logs included.
        partition_log.is_failed |= self._disk.has_failed
        return self._partitions.add(partition_log)

    def _note_losses(self, directory: str, report: RecoveryReport) -> None:
        self.has_lost |= bool(report.losses)
        for loss in report.losses:
            log.warning("log_cut", directory=directory, reason=loss)
        if report.rebuilt:
            log.warning("log_rebuilt", directory=directory, rebuilt=report.rebuilt)

    def log_config(self, topic: str) -> LogConfig:
        """The log settings of a topic. They are cached by the topic's own configs, because most topics have the same or none."""
        own = self.state.config_of(TOPIC_RESOURCE, topic)
        key = (self._config.current, frozenset(own.items()))
        known = self._log_configs.get(key)
        if known is None:
            if len(self._log_configs) >= LOG_CONFIGS_KEPT:
                self._log_configs.clear()
            known = self._log_configs[key] = log_config(own, self._config.current)
        return known

    # topics

    def create_topic(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Topic:
        """Create a topic. Raises `KafkaError`, with nothing changed."""
        topic_id = self._env.random_uuid()
        self._runtime.execute(self.state.create_topic(name, topic_id, partition_count, configs))
        return self._created(name, partition_count)

    def create_large_topic(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Steps[Topic]:
        """`create_topic` in steps, for thousands of partitions. Raises `KafkaError`, with nothing changed."""
        topic_id = self._env.random_uuid()
        yield from self._runtime.execute_large(lambda: self.state.create_topic(name, topic_id, partition_count, configs))
        return self._created(name, partition_count)

    def _created(self, name: str, partition_count: int) -> Topic:
        topic = self.state.topics[name]
        self._open_new(topic, 0)
        self._topic_changed(name)
        log.info("topic_created", topic=name, partitions=partition_count)
        return topic

    def ensure_internal(self, name: str) -> Topic:
        """The internal topic of a coordinator. It is created when a client first needs it. Raises `KafkaError`."""
        topic = self.state.topics.get(name)
        if topic is not None:
            return topic
        settings = self._config.settings
        if name == SHARE_STATE_TOPIC:
            return self.create_topic(name, settings.share_coordinator_state_topic_num_partitions, _share_state_configs(settings))
        if name == OFFSETS_TOPIC:
            count, segment_bytes = settings.offsets_topic_num_partitions, settings.offsets_topic_segment_bytes
            compression = "producer"
        else:
            count, segment_bytes = settings.transaction_state_log_num_partitions, settings.transaction_state_log_segment_bytes
            compression = "uncompressed"
        configs = {"cleanup.policy": "compact", "compression.type": compression, "segment.bytes": str(segment_bytes)}
        if name == TRANSACTION_TOPIC:
            configs |= {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
        return self.create_topic(name, count, configs)

    def ensure_coordinator(self, name: str) -> None:
        """Create the internal topic of a coordinator if it does not exist.

        Raises COORDINATOR_NOT_AVAILABLE for every error, because clients retry on this code and give up on others. Apache Kafka
        creates the topic in the background (AutoTopicCreationManager) and answers with the same code meanwhile.
        """
        try:
            self.ensure_internal(name)
        except KafkaError as error:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE) from error

    def create_partitions(self, name: str, count: int) -> Steps[None]:
        """Raise a topic's number of partitions to ``count``. Raises `KafkaError`, with nothing changed."""
        added = count - self.state.topic(name).partition_count
        if added <= PARTITIONS_AT_ONCE:
            self._runtime.execute(self.state.create_partitions(name, count))
        else:
            yield from self._runtime.execute_large(lambda: self.state.create_partitions(name, count))
        self._open_new(self.state.topics[name], count - max(added, 0))
        self._topic_changed(name)

    def _topic_changed(self, name: str) -> None:
        for changed in self.on_topic_changed:
            changed(name)

    def _open_new(self, topic: Topic, first: int) -> None:
        """Put new partitions into service: the first at once, the others in the background or when a client first names them."""
        config = self.log_config(topic.name)
        at_once = min(topic.partition_count, first + PARTITIONS_AT_ONCE)
        for index in range(first, at_once):
            if self._leads(topic, index):
                self._open(topic, index, config, exists=False)
        if at_once < topic.partition_count:
            self._stepping.run(self._open_rest(topic, at_once), lambda _: None, self._step_failed)

    def _open_rest(self, topic: Topic, first: int) -> Steps[None]:
        pace = Pace()
        for index in range(first, topic.partition_count):
            self.open_missing(topic.name, index, topic)
            if pace.spend(OPEN_WORK):
                yield None

    def open_missing(self, name: str, index: int, topic: Topic | None = None) -> Partition | None:
        """Put a partition into service if it is not, and return it; None where this broker does not lead such a partition.

        ``topic``: do so only while the name still belongs to this topic.
        """
        current = self.state.topics.get(name)
        if current is None or (topic is not None and current is not topic) or not 0 <= index < current.partition_count:
            return None
        if not self._leads(current, index):
            return None
        return self._partitions.known(name, index) or self._open(current, index, self.log_config(name), exists=False)

    def _leads(self, topic: Topic, index: int) -> bool:
        """Whether this broker leads a partition. In a cluster where no broker has registered it leads all."""
        return not self.state.registrations.brokers or topic.partitions[index].leader == self.state.node_id

    def led_elsewhere(self, name: str, index: int) -> NotLeader | None:
        """Implements `Partitions.led_elsewhere`."""
        topic = self.state.topics.get(name)
        if topic is None or not 0 <= index < topic.partition_count or self._leads(topic, index):
            return None
        return NotLeader(topic.partitions[index].leader, topic.partitions[index].leader_epoch)

    @staticmethod
    def _step_failed(error: Exception) -> None:
        raise error

    def delete_topic(self, name: str) -> None:
        topic = self._runtime.execute(self.state.delete_topic(name))
        left = run_first_step(self._partitions.remove(name, range(topic.partition_count)))
        if left is not None:
            self._stepping.run(left, lambda _: None, self._step_failed)
        for deleted in self.on_topic_deleted:
            deleted(name)
        self._topic_changed(name)
        log.info("topic_deleted", topic=name)

    def set_configs(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Set or, with None, remove configs of a resource; they are in force at once. Raises `KafkaError`, with nothing changed."""
        self._runtime.execute(self.state.set_configs(resource_type, name, changes))
        if resource_type == BROKER_RESOURCE:
            self._config.set_dynamic(self.dynamic_broker_configs)
            for topic in self.state.topics:
                self._set_log_config(topic, self.log_config(topic))
        elif resource_type == TOPIC_RESOURCE and name in self.state.topics:
            self._set_log_config(name, self.log_config(name))

    def _set_log_config(self, name: str, config: LogConfig) -> None:
        for index in range(self.state.topics[name].partition_count):
            partition = self._partitions.known(name, index)
            if partition is not None:
                partition.log.config = config

    def alter_quotas(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool) -> None:
        """Raises `KafkaError`, with nothing changed."""
        result = self.state.client_quotas.alter(entity, changes)
        if not validate_only:
            self._runtime.execute(result)

    def set_credential(self, name: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> None:
        """Raises `KafkaError`, with nothing changed."""
        self._runtime.execute(self.state.credentials.set(name, mechanism, salt, salted_password, iterations))

    def remove_credential(self, name: str, mechanism: int) -> None:
        """Raises `KafkaError`, with nothing changed."""
        self._runtime.execute(self.state.credentials.remove(name, mechanism))

    @property
    def dynamic_broker_configs(self) -> dict[str, str]:
        """The dynamic configs of this broker: those for all brokers, overridden by those for this broker alone."""
        state = self.state
        return {**state.config_of(BROKER_RESOURCE, ""), **state.config_of(BROKER_RESOURCE, str(state.node_id))}

    # features and ids

    @property
    def features_epoch(self) -> int:
        """A number that grows with every change of a feature level: the metadata log's end offset."""
        return self._runtime.partition.log.log_end_offset

    @property
    def transaction_version(self) -> int:
        return self.state.transaction_version

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Set feature levels, which are in force at once. Raises `KafkaError`, with nothing changed."""
        changed = {name: level for name, level in levels.items() if self.state.features.get(name, 0) != level}
        self._runtime.execute(self.state.set_features(changed))
        for name, level in changed.items():
            log.info("feature_level_set", feature=name, level=level)
        for changed_level in self.on_transaction_version:
            changed_level(self.transaction_version)
        for features_changed in self.on_features_changed:
            features_changed()

    @property
    def next_producer_id(self) -> int:
        """The first producer id that is in no allocated block."""
        return max(self.state.next_producer_id, self._least_producer_id)

    def skip_producer_ids(self, highest: int) -> bool:
        """Never allocate ids up to ``highest``, which are in use; returns whether the metadata log lacks their blocks.

        Nothing is written, so that a start needs no disk space. Until a block is logged, each start finds the same ids again.
        """
        if self.next_producer_id > highest:
            return False
        self._least_producer_id = highest + 1
        return True

    def allocate_producer_ids(self, then: Callable[[range | KafkaError], None]) -> None:
        """Implements `ProducerIdBlocks` by a controller in this broker: calls ``then`` before returning."""
        try:
            block: range | KafkaError = range(*self._runtime.execute(self.state.allocate_producer_ids(self._least_producer_id)))
        except KafkaError as error:
            block = error
        then(block)


def _share_state_configs(settings: Settings) -> dict[str, str]:
    """The topic is not compacted, because an update record has only changes. Records are deleted once a snapshot replaces them."""
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        "min.insync.replicas": "1",
        "retention.ms": "-1",
    }
