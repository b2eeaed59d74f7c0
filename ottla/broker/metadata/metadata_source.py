"""The source of a broker's metadata: its own log (`own_metadata`), or a controller elsewhere (`membership`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.broker.config.settings import Settings
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.local_partitions import LocalPartitions
from ottla.broker.metadata.metadata_listener import MetadataListener
from ottla.broker.metadata.metadata_publisher import MetadataPublisher
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.steps import Steps
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.transaction_history import TransactionHistory


class Repeat(Protocol):
    """Repeats a named task at an interval (`Housekeeping.repeat`)."""

    def __call__(
        self,
        name: str,
        interval_ms: Callable[[Settings], int],
        task: Callable[[], Steps[None] | None],
        *,
        may_have_secrets: bool = False,
    ) -> None: ...


class MetadataSource(Protocol):
    """The cluster's metadata, and the parts of the broker that apply its changes."""

    state: ClusterState
    local_partitions: LocalPartitions
    publisher: MetadataPublisher
    cluster: ClusterCommands
    producer_ids: ProducerIds

    async def load(self, features: Mapping[str, int], listener: MetadataListener) -> None:
        """Read the metadata, put every partition into service, and load the coordinators. ``listener`` is notified of changes.

        Raises `DirectoryError` and `ConfigError`.
        """
        ...

    def skip_known_ids(self, least: int, known: Callable[[], int]) -> None:
        """Never allocate a producer id below ``least`` or, if a crash may have removed allocated ids from the log, up to
        ``known()``."""
        ...

    @property
    def broker_epoch(self) -> int:
        """The broker epoch that the controller returned at the registration; 0 on a broker that is its own controller."""
        ...

    def begin_housekeeping(self, repeat: Repeat) -> None:
        """Start the periodic tasks."""
        ...

    async def serve(self) -> None:
        """Tell the controller that this broker's listeners are open."""
        ...

    async def leave(self) -> None:
        """Hand over this broker's leaderships. Called before the broker stops."""
        ...

    def close(self) -> None:
        """Stop following the metadata. Called when the broker's work has ended."""
        ...

    @property
    def has_lost(self) -> bool:
        """Whether recovery has truncated a log. This may happen even in a directory with a clean shutdown file."""
        ...

    def take_read(self) -> dict[TopicPartition, TransactionHistory]:
        """Return the transactions that recovery has read in each partition, and drop them from memory."""
        ...

    def topics_born(self) -> dict[str, int]:
        """By name, the creation time in ms of the newest topic with this name, if known."""
        ...
