"""The cluster's metadata where this broker is its own controller: the state, its log, commands, and those who follow it."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.cluster import Cluster
from ottla.broker.disk_health import DiskHealth
from ottla.broker.env import Env
from ottla.broker.gate import Gate
from ottla.broker.live_config import LiveConfig
from ottla.broker.local_partitions import LocalPartitions, SoleReplicas
from ottla.broker.metadata_log import LocalMetadataLog
from ottla.broker.metadata_publisher import MetadataPublisher
from ottla.broker.partitions import Partitions
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.stepping import Stepping
from ottla.coordinator.cluster import ClusterState
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.log_dir import LogDirectory
from ottla.storage.transaction_history import TransactionHistory


class OwnMetadata:
    """Builds the parts. The directory must have its meta.properties. Raises `DirectoryError` where the log cannot be opened."""

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
        node_id = config.settings.node_id
        self.state = ClusterState(node_id, ignores_case=directory.ignores_case())
        self.local_partitions = LocalPartitions(
            env=env,
            stepping=stepping,
            config=config,
            directory=directory,
            disk=disk,
            gate=gate,
            partitions=partitions,
            state=self.state,
            replicas=SoleReplicas(node_id),
        )
        self.publisher = MetadataPublisher(self.state, config, self.local_partitions)
        self.log = LocalMetadataLog(env=env, stepping=stepping, directory=directory, disk=disk, gate=gate, state=self.state)
        self.cluster = Cluster(
            randomness=env, config=config, state=self.state, metadata_log=self.log, publish=self.publisher.publish
        )
        self.producer_ids = ProducerIds(self.cluster)

    @property
    def has_lost(self) -> bool:
        """Whether recovery has cut a log. This may happen even in a directory that is marked clean."""
        return self.log.has_lost or self.local_partitions.has_lost

    def take_read(self) -> dict[TopicPartition, TransactionHistory]:
        """The transactions that recovery has read in each partition, once."""
        return self.local_partitions.take_read()

    def load(self, features: Mapping[str, int]) -> None:
        """Replay the log, set feature levels, put every partition into service, and load the coordinators.

        Raises `DirectoryError` where the log cannot be read.
        """
        self.cluster.set_up(features, is_new=self.log.load())
        self.publisher.begin()
