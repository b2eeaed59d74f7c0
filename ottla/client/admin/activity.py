"""Takes samples of what a cluster does: log end offsets, lag of groups, open transactions, partitions without a leader.

Each leader gets one ListOffsets for all partitions, and each coordinator one OffsetFetch for all groups. Only share groups, and
brokers without KIP-709, need a request for each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin import transactions
from ottla.client.admin.groups import SHARE, GroupListing, list_groups
from ottla.client.admin.offsets import LATEST, offsets_by_leader
from ottla.client.admin.positions import positions_of
from ottla.client.admin.transactions import TransactionListing
from ottla.client.cluster import BrokerConnections, BrokerNode, nodes_of
from ottla.client.errors import NO_RESULT, ClientError, KafkaAnswered, UnsupportedRequest
from ottla.client.real_time import monotonic_s
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.topic_partition import TopicPartition

MANY_GROUPS_FROM: Final = 8
"""The first version of OffsetFetch for several groups (KIP-709)."""
MAX_DESCRIBED: Final = 20
"""Maximum number of transactions in a sample, because each needs a DescribeTransactions request."""
AGES_MS: Final = (3_600_000, 600_000, 60_000, 10_000, 1_000)
"""Minimum ages, in ms, for which ListTransactions is sent in this order until enough old transactions are found."""


@dataclass(slots=True, frozen=True)
class GroupSample:
    """A group. ``lag`` is the sum over partitions with a committed offset; None if the group has no such partition."""

    group_id: str
    group_type: str
    state: str
    lag: int | None
    committed: dict[TopicPartition, int]


@dataclass(slots=True, frozen=True)
class TransactionSample:
    transactional_id: str
    state: str
    start_ms: int | None
    partitions: int


@dataclass(slots=True, frozen=True)
class Sample:
    """The state of a cluster at a time. ``ends`` has the high watermarks of partitions with a leader."""

    taken_s: float
    cluster_id: str
    brokers: list[BrokerNode]
    partitions: dict[str, int]
    internal: frozenset[str]
    leaderless: int
    under_replicated: int
    ends: dict[TopicPartition, int]
    groups: list[GroupSample]
    transactions: list[TransactionSample]
    open_transactions: int


def sample(brokers: BrokerConnections) -> Sample:
    """Return a `Sample`. Groups and transactions that the client may not describe are missing. Raises `KafkaAnswered`."""
    metadata = brokers.until_final("asking for the topics", lambda: brokers.metadata(None))
    taken_s = monotonic_s()
    ends = offsets_by_leader(brokers, metadata, LATEST)
    listings = _allowed(lambda: transactions.list_transactions(brokers, states=transactions.OPEN_STATES))
    partitions = [p for topic in metadata.topics for p in topic.partitions]
    return Sample(
        taken_s=taken_s,
        cluster_id=metadata.cluster_id or "",
        brokers=[node for _, node in sorted(nodes_of(metadata).items())],
        partitions={topic.name or "": len(topic.partitions) for topic in metadata.topics},
        internal=frozenset(topic.name or "" for topic in metadata.topics if topic.is_internal),
        leaderless=sum(p.leader_id < 0 for p in partitions),
        under_replicated=sum(len(p.isr_nodes) < len(p.replica_nodes) for p in partitions),
        ends=ends,
        groups=_groups(brokers, ends),
        transactions=[t for listing in oldest(brokers, listings) for t in _described(brokers, listing.transactional_id)],
        open_transactions=len(listings),
    )


def oldest(brokers: BrokerConnections, listings: list[TransactionListing]) -> list[TransactionListing]:
    """Return the oldest open transactions, at most `MAX_DESCRIBED`.

    ListTransactions returns no start times, but selects by age. Transactions between two ages of `AGES_MS`, and all transactions of
    brokers that cannot select by age, are ordered by id.
    """
    if len(listings) <= MAX_DESCRIBED:
        return listings
    chosen: dict[str, TransactionListing] = {}
    for age_ms in AGES_MS:
        older = _allowed(
            lambda age_ms=age_ms: transactions.list_transactions(brokers, states=transactions.OPEN_STATES, longer_than_ms=age_ms)
        )
        chosen |= {listing.transactional_id: listing for listing in older if listing.transactional_id not in chosen}
        if len(chosen) >= MAX_DESCRIBED:
            break
    chosen |= {listing.transactional_id: listing for listing in listings if listing.transactional_id not in chosen}
    return list(chosen.values())[:MAX_DESCRIBED]


def _allowed(ask: Any) -> list[Any]:
    """Return the result of a listing; an empty list if the client is not authorized, or if the broker is too old."""
    try:
        return list(ask())
    except (KafkaAnswered, UnsupportedRequest):
        return []


def _groups(brokers: BrokerConnections, ends: dict[TopicPartition, int]) -> list[GroupSample]:
    listings = _allowed(lambda: list_groups(brokers))
    committed = committed_offsets(brokers, listings)
    return [_group(listing, committed.get(listing.group_id, {}), ends) for listing in listings]


def committed_offsets(
    brokers: BrokerConnections, listings: Iterable[GroupListing], silent: list[ClientError] | None = None
) -> dict[str, dict[TopicPartition, int]]:
    """Return the committed offsets of groups. Groups whose coordinator has moved, or whose offsets this user may not see, are
    missing. If the list ``silent`` is given, the errors `NO_RESULT` of a coordinator are appended to it instead of raised, and its
    groups are missing too."""
    committed: dict[str, dict[TopicPartition, int]] = {}
    by_coordinator: dict[int, list[str]] = {}
    for listing in listings:
        if listing.group_type.lower() == SHARE:
            committed[listing.group_id] = _share_offsets(brokers, listing.group_id)
        else:
            by_coordinator.setdefault(listing.coordinator, []).append(listing.group_id)
    nodes = {node.node_id: node for node in brokers.nodes()}
    for coordinator, groups in by_coordinator.items():
        if coordinator not in nodes:
            continue
        try:
            committed.update(_committed(brokers, nodes[coordinator], groups))
        except NO_RESULT as error:
            if silent is None:
                raise
            silent.append(error)
    return committed


def _group(listing: GroupListing, committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> GroupSample:
    lags = [max(0, ends[where] - offset) for where, offset in committed.items() if where in ends]
    return GroupSample(
        group_id=listing.group_id,
        group_type=listing.group_type,
        state=listing.state,
        lag=sum(lags) if lags else None,
        committed=committed,
    )


def _share_offsets(brokers: BrokerConnections, group: str) -> dict[TopicPartition, int]:
    try:
        positions = positions_of(brokers, group, is_share=True, owned=())
    except KafkaAnswered:
        return {}
    return {(p.topic, p.partition): p.committed for p in positions if p.committed is not None}


def _committed(brokers: BrokerConnections, node: BrokerNode, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:

    def request_for(names: Iterable[str]) -> OffsetFetchRequest:
        asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        return OffsetFetchRequest(group_id=asked[0].group_id, topics=None, groups=asked, require_stable=False)

    def attempt() -> dict[str, dict[TopicPartition, int]]:
        connection = brokers.node(node)
        if connection.version(request_for(groups)) >= MANY_GROUPS_FROM:
            answered = brokers.ask(connection, request_for(groups)).groups
        else:
            answered = [brokers.ask(connection, request_for([name])) for name in groups]
        return {
            name: {
                (t.name, p.partition_index): p.committed_offset for t in one.topics for p in t.partitions if p.committed_offset >= 0
            }
            for name, one in zip(groups, answered, strict=True)
            if not one.error_code
        }

    return brokers.until_final(f"asking broker {node.node_id} for the offsets of its groups", attempt)


def _described(brokers: BrokerConnections, transactional_id: str) -> list[TransactionSample]:
    try:
        found = transactions.describe(brokers, transactional_id)
    except (ClientError, UnsupportedRequest):
        return []
    return [
        TransactionSample(
            transactional_id=transactional_id, state=found.state, start_ms=found.start_ms, partitions=len(found.partitions)
        )
    ]
