"""Reads the state of the cluster from this process's broker (`ottla.broker.view`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.view import brokers, groups, health, partitions, topics, transactions
from ottla.broker.view.brokers import ViewedBroker
from ottla.broker.view.coordinators import Listed
from ottla.broker.view.groups import GroupDetail, GroupLag, GroupListing
from ottla.broker.view.health import Health
from ottla.broker.view.partitions import LogState, PartitionDetail, Totals
from ottla.broker.view.topics import TopicListing, TopicSize
from ottla.broker.view.transactions import TransactionDescription, TransactionListing
from ottla.client.admin.strays import Stray
from ottla.console.cluster_view import ClusterView
from ottla.console.kept_reads import KeptReads, items_of_lags
from ottla.control.pages import LoopReader
from ottla.protocol.topic_partition import TopicPartition


class OwnBroker:
    """Reads the state of the cluster from this process's broker. ``loop`` calls functions on the broker's event loop. ``kept``
    caches the lags of all groups for all pages of the console."""

    def __init__(self, loop: LoopReader, kept: KeptReads) -> None:
        self._loop = loop
        self._kept = kept

    def health(self) -> Health:
        return self._loop.read(lambda controlled: health.health(controlled.broker))

    def reported_strays(self) -> list[Stray]:
        return []

    def brokers(self) -> list[ViewedBroker]:
        return self._loop.read(lambda controlled: brokers.brokers(controlled.broker))

    def topics(self) -> list[TopicListing]:
        return self._loop.in_steps(lambda controlled: topics.topics(controlled.broker))

    def topic(self, name: str) -> TopicListing:
        return self._loop.read(lambda controlled: topics.topic(controlled.broker, name))

    def sizes(self, listings: Sequence[TopicListing]) -> list[TopicSize]:
        return self._loop.in_steps(lambda controlled: topics.sizes(controlled.broker, listings))

    def totals(self, most: int) -> tuple[Totals, list[str | None]]:
        totals = self._loop.in_steps(lambda controlled: partitions.totals(controlled.broker, most))
        held = [(one.topic, one.partition) for one in totals.held]
        if not held:
            return totals, []
        return totals, self._loop.in_steps(lambda controlled: transactions.holding_ids(controlled.broker, held))

    def partitions(self, topic: str, indexes: Sequence[int]) -> list[PartitionDetail]:
        return self._loop.in_steps(lambda controlled: partitions.details(controlled.broker, topic, indexes))

    def log_states(self, of: Sequence[TopicPartition]) -> list[LogState | None]:
        return self._loop.in_steps(lambda controlled: partitions.log_states(controlled.broker, of))

    def groups(self) -> Listed[GroupListing]:
        return self._loop.in_steps(lambda controlled: groups.groups(controlled.broker))

    def lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        return self._loop.in_steps(lambda controlled: groups.lags(controlled.broker, group_ids))

    def quick_lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        return self._kept.get("lags", lambda: self.lags(group_ids), items_of_lags)

    def group(self, group_id: str) -> GroupDetail:
        return self._loop.in_steps(lambda controlled: groups.group(controlled.broker, group_id))

    def transactions(self) -> Listed[TransactionListing]:
        return self._loop.in_steps(lambda controlled: transactions.transactions(controlled.broker))

    def described(self, rows: Sequence[TransactionListing]) -> list[TransactionDescription]:
        ids = [row.transactional_id for row in rows]
        return self._loop.in_steps(lambda controlled: transactions.described(controlled.broker, ids))

    def transaction(self, transactional_id: str) -> TransactionDescription | None:
        return self._loop.read(lambda controlled: transactions.transaction(controlled.broker, transactional_id))


if TYPE_CHECKING:
    # mypy checks here that `OwnBroker` implements `ClusterView`.
    _PORT: type[ClusterView] = OwnBroker
