"""The port through which the pages see a cluster. Its values are those of `ottla.broker.view`.

`own_broker` implements it with the read model of the broker in this process. Another implementation may send requests to a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.view.brokers import BrokerNode
from ottla.broker.view.coordinators import Listed
from ottla.broker.view.groups import GroupDetail, GroupLag, GroupListing
from ottla.broker.view.health import Health
from ottla.broker.view.partitions import LogState, PartitionDetail, Totals
from ottla.broker.view.topics import TopicListing, TopicSize
from ottla.broker.view.transactions import TransactionDescription, TransactionListing
from ottla.protocol.topic_partition import TopicPartition


class ClusterView(Protocol):
    """Each method blocks until it has read its values, and raises `CommandRefused` or `KafkaError`, in one line for a person."""

    def health(self) -> Health: ...

    def brokers(self) -> list[BrokerNode]: ...

    def topics(self) -> list[TopicListing]: ...

    def topic(self, name: str) -> TopicListing:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    def sizes(self, listings: Sequence[TopicListing]) -> list[TopicSize]: ...

    def totals(self, most: int) -> Totals:
        """All partitions, and at most ``most`` of those that hold back readers."""
        ...

    def partitions(self, topic: str, indexes: Sequence[int]) -> list[PartitionDetail]: ...

    def log_states(self, of: Sequence[TopicPartition]) -> list[LogState | None]:
        """The state of each log, None if it is not known here."""
        ...

    def groups(self) -> Listed[GroupListing]: ...

    def lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        """Groups that no longer exist are left out."""
        ...

    def group(self, group_id: str) -> GroupDetail:
        """Raises GROUP_ID_NOT_FOUND."""
        ...

    def transactions(self) -> Listed[TransactionListing]: ...

    def described(self, transactional_ids: Sequence[str]) -> list[TransactionDescription]:
        """Ids that have expired are left out."""
        ...

    def transaction(self, transactional_id: str) -> TransactionDescription | None:
        """None for an id that its coordinator does not know."""
        ...
