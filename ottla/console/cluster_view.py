"""The interface through which pages read the state of a cluster, as values of `ottla.broker.view`.

`own_broker` implements the interface for the broker in this process, `client_view` for any cluster with a Kafka client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.view.brokers import ViewedBroker
from ottla.broker.view.coordinators import Listed
from ottla.broker.view.groups import GroupDetail, GroupLag, GroupListing
from ottla.broker.view.health import Health
from ottla.broker.view.partitions import LogState, PartitionDetail, Totals
from ottla.broker.view.topics import TopicListing, TopicSize
from ottla.broker.view.transactions import TransactionDescription, TransactionListing
from ottla.client.admin.strays import Stray
from ottla.protocol.topic_partition import TopicPartition


class ClusterView(Protocol):
    """The state of a cluster. Each method blocks until its values are read, and may raise `CommandRefused`, `KafkaError` or
    `ClientError`."""

    def health(self) -> Health: ...

    def reported_strays(self) -> list[Stray]:
        """Return the stray directories that brokers of other processes report. `health` has the stray directories of this process's
        broker."""
        ...

    def brokers(self) -> list[ViewedBroker]: ...

    def topics(self) -> list[TopicListing]: ...

    def topic(self, name: str) -> TopicListing:
        """Return a topic. Raises UNKNOWN_TOPIC_OR_PARTITION as a `KafkaError` or `ClientError`."""
        ...

    def sizes(self, listings: Sequence[TopicListing]) -> list[TopicSize]: ...

    def totals(self, most: int) -> tuple[Totals, list[str | None]]:
        """Return the total size of all partitions, and at most ``most`` of the partitions whose readers wait for an open
        transaction. The second value has the transactional id that each of these partitions waits for; None if it is unknown, for
        instance because another broker coordinates the transaction."""
        ...

    def partitions(self, topic: str, indexes: Sequence[int]) -> list[PartitionDetail]: ...

    def log_states(self, of: Sequence[TopicPartition]) -> list[LogState | None]:
        """Return the state of each log; None if it is unknown, for instance because this broker has no replica."""
        ...

    def groups(self) -> Listed[GroupListing]: ...

    def lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        """Return the lag of groups. Groups that no longer exist are omitted."""
        ...

    def quick_lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        """Return the lag of all groups, whose ids the caller gives, as far as it can be read without a request for each group.

        The value is cached for a time in proportion to the number of groups and of their partitions, so deleted groups may be in
        it. Missing are groups that were created meanwhile. `client_view` also lacks share groups, and groups whose coordinator has
        moved, does not answer, or does not let this user describe the group.
        """
        ...

    def group(self, group_id: str) -> GroupDetail:
        """Return a group. Raises GROUP_ID_NOT_FOUND."""
        ...

    def transactions(self) -> Listed[TransactionListing]: ...

    def described(self, rows: Sequence[TransactionListing]) -> list[TransactionDescription]:
        """Return the state of transactional ids of `transactions`. Expired ids are omitted."""
        ...

    def transaction(self, transactional_id: str) -> TransactionDescription | None:
        """Return the state of a transactional id; None if the coordinator does not know the id."""
        ...
