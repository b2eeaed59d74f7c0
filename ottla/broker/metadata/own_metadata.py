"""The cluster's metadata on a broker that is its own controller: state, log and commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.metadata.cluster import NEXT_SWEEP_MS, ClusterCommands
from ottla.broker.metadata.local_partitions import LocalPartitions, SoleReplicas
from ottla.broker.metadata.metadata_listener import MetadataListener
from ottla.broker.metadata.metadata_log import LocalMetadataLog, metadata_not_written
from ottla.broker.metadata.metadata_publisher import MetadataPublisher
from ottla.broker.metadata.metadata_source import Repeat
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.broker.partitions.kernel import Kernel
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.metadata_log import topics_born
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.identity import DirectoryError
from ottla.storage.reading import all_batches
from ottla.storage.transaction_history import TransactionHistory

log = structlog.get_logger("broker")


class OwnMetadata:
    """The metadata of a broker that is its own controller. The constructor raises `DirectoryError` if the log cannot be opened."""

    broker_epoch = 0

    def __init__(self, kernel: Kernel) -> None:
        node_id = kernel.config.settings.node_id
        self._kernel, self._directory = kernel, kernel.directory
        self._was_clean = kernel.directory.was_clean
        self.state = ClusterState(node_id, ignores_case=kernel.directory.ignores_case())
        if kernel.config.settings.delegation_token_secret_key:
            self.state.tokens.use_key(kernel.config.settings.delegation_token_secret_key)
        self.local_partitions = LocalPartitions(kernel, self.state, SoleReplicas(node_id))
        self.publisher = MetadataPublisher(self.state, kernel.config, self.local_partitions)
        self.log = LocalMetadataLog(kernel, self.state)
        self.cluster = ClusterCommands(
            randomness=kernel.env,
            config=kernel.config,
            state=self.state,
            metadata_log=self.log,
            publish=lambda own_configs: self.publisher.publish(),
        )
        self.producer_ids = ProducerIds(self.cluster)
        # Whether expired delegation tokens remain after the last `_sweep_tokens`.
        self._has_expired_tokens = False

    async def load(self, features: Mapping[str, int], listener: MetadataListener) -> None:
        is_new = self.log.load()
        # The copy of the metadata log on a member of a cluster has a topic id. The log of a controller process has its
        # registration.
        if self._directory.topic_id_on_disk(METADATA_TOPIC, 0) is not None or self.state.registrations.controllers:
            raise DirectoryError(
                f"{self._directory.path} belongs to a cluster of several brokers, whose metadata it shares;"
                " start the broker with the earlier process.roles and with controller.quorum.bootstrap.servers"
            )
        try:
            self.cluster.set_up(features, is_new=is_new)
        except KafkaError as error:
            raise metadata_not_written(error) from error
        self.publisher.begin(listener)

    def skip_known_ids(self, least: int, known: Callable[[], int]) -> None:
        """Skip all producer ids in use.

        The metadata log may lack them: recovery cannot detect that a power cut removed whole batches from its end.
        """
        try:
            self.cluster.skip_producer_ids(least - 1)
            if self.log.has_lost or not self._was_clean:
                highest = known()
                if self.cluster.skip_producer_ids(highest):
                    log.warning("producer_ids_skipped", next_producer_id=highest + 1)
        except KafkaError as error:
            raise metadata_not_written(error) from error

    def begin_housekeeping(self, repeat: Repeat) -> None:
        if self._kernel.config.settings.delegation_token_secret_key:
            repeat("delegation_tokens", self._next_sweep_ms, self._sweep_tokens, may_have_secrets=True)

    def _sweep_tokens(self) -> None:
        self._has_expired_tokens = self.cluster.sweep_tokens(self._kernel.env.now_ms())

    def _next_sweep_ms(self, settings: Settings) -> int:
        return NEXT_SWEEP_MS if self._has_expired_tokens else settings.delegation_token_expiry_check_interval_ms

    async def serve(self) -> None:
        """Do nothing: no controller in another process waits for this broker."""

    async def leave(self) -> None:
        """Do nothing: there is no other broker that could take over leaderships."""

    def close(self) -> None:
        """Do nothing: closing the directory closes the log."""

    @property
    def has_lost(self) -> bool:
        return self.log.has_lost or self.local_partitions.has_lost

    def take_read(self) -> dict[TopicPartition, TransactionHistory]:
        return self.local_partitions.take_read()

    def topics_born(self) -> dict[str, int]:
        return topics_born(all_batches(self.log.log))
