"""Finds the transaction that holds back a partition's last stable offset, and the reason why a group does not advance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ottla.client.admin import groups, transactions
from ottla.client.admin.acls import has_authorizer
from ottla.client.admin.groups import GroupDescription
from ottla.client.admin.offsets import LATEST, list_offsets
from ottla.client.admin.positions import GroupPosition
from ottla.client.admin.transactions import OPEN_STATES, OpenTransaction, TransactionDescription
from ottla.client.cluster import BrokerConnections, BrokerNode, led_partitions
from ottla.client.errors import NO_RESULT, UnknownTopic
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.topic_partition import TopicPartition


@dataclass(slots=True, frozen=True)
class StableOffset:
    """The last stable offset of a partition, and the transaction that holds it back.

    ``holder`` is the open transaction that begins at the last stable offset, if any. ``transaction`` is the coordinator's
    description of it; None if no coordinator knows the transaction, or, with ``may_be_hidden``, perhaps because this user may not
    describe it.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    holder: OpenTransaction | None = None
    transaction: TransactionDescription | None = None
    may_be_hidden: bool = False

    @property
    def waiting(self) -> int:
        """Number of offsets between the last stable offset and the high watermark."""
        return self.high_watermark - self.last_stable_offset


def stable_offsets(brokers: BrokerConnections, topic: str, indexes: Iterable[int] | None = None) -> list[StableOffset]:
    """Return the last stable offset of each partition in ``indexes``, or of all partitions, ordered by partition. Raises
    `ClientError`."""
    wanted = sorted(brokers.partitions(topic) if indexes is None else indexes)
    stable = list_offsets(brokers, topic, wanted, LATEST, committed=True)
    ends = list_offsets(brokers, topic, wanted, LATEST)
    waiting = [index for index in wanted if stable[index] < ends[index]]
    holders = _holders(brokers, topic, waiting, stable) if waiting else {}
    known = _known(brokers, holders.values())
    is_any_unknown = any(holder.producer_id not in known for holder in holders.values())
    may_be_hidden = is_any_unknown and has_authorizer(brokers)
    return [
        StableOffset(
            topic=topic,
            partition=index,
            last_stable_offset=stable[index],
            high_watermark=ends[index],
            holder=holders.get(index),
            transaction=known.get(holders[index].producer_id) if index in holders else None,
            may_be_hidden=may_be_hidden,
        )
        for index in wanted
    ]


def _holders(brokers: BrokerConnections, topic: str, indexes: list[int], stable: dict[int, int]) -> dict[int, OpenTransaction]:
    """Return the first open transaction of each partition. Transactions above the offsets in ``stable`` are ignored: they began
    after these offsets were requested."""
    holders: dict[int, OpenTransaction] = {}
    for transaction in transactions.open_transactions(brokers, topic, indexes):
        if transaction.start_offset <= stable[transaction.partition]:
            holders.setdefault(transaction.partition, transaction)
    return holders


def _known(brokers: BrokerConnections, holders: Iterable[OpenTransaction]) -> dict[int, TransactionDescription]:
    """Return the coordinators' descriptions of transactions that are not complete, by producer id."""
    wanted = {holder.producer_id for holder in holders}
    if not wanted:
        return {}
    known: dict[int, TransactionDescription] = {}
    for listing in transactions.list_transactions(brokers, producer_ids=wanted):
        transaction = transactions.describe_if_known(brokers, listing.transactional_id)
        if transaction is not None and transaction.state in OPEN_STATES and transaction.producer_id in wanted:
            known[transaction.producer_id] = transaction
    return known


def holding_ids(
    brokers: BrokerConnections, metadata: MetadataResponse, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, str]:
    """Return the transactional id of the transaction that holds back each partition's last stable offset, with one request to each
    leader and one to each broker. ``metadata`` has the leaders.

    Partitions are missing if no coordinator knows the transaction, if the user may not see it, or if a broker does not answer.
    """
    producers = _first_producers(brokers, metadata, partitions)
    if not producers:
        return {}
    with suppress(*NO_RESULT):
        listed = transactions.list_transactions(brokers, states=OPEN_STATES, producer_ids=set(producers.values()), silent=[])
        ids = {one.producer_id: one.transactional_id for one in listed}
        return {partition: ids[producer] for partition, producer in producers.items() if producer in ids}
    return {}


def _first_producers(
    brokers: BrokerConnections, metadata: MetadataResponse, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the producer id of each partition's first open transaction.

    A partition is omitted if it has an error, or if its leader refuses the request or does not answer.
    """
    held = set(partitions)
    found: dict[TopicPartition, int] = {}
    for leader, led in led_partitions(metadata).items():
        wanted = {name: [index for index in indexes if (name, index) in held] for name, indexes in led.items()}
        topics = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in wanted.items() if indexes]
        if not topics:
            continue

        def attempt(leader: BrokerNode = leader, topics: list[TopicRequest] = topics) -> Any:
            return brokers.ask(brokers.node(leader), DescribeProducersRequest(topics=topics))

        with suppress(*NO_RESULT):
            answer = brokers.until_final(f"asking broker {leader.node_id} for producers", attempt)
            found.update(_first_of(answer))
    return found


def _first_of(answer: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, int]]:
    for topic in answer.topics:
        for described in topic.partitions:
            opened = [one for one in described.active_producers if one.current_txn_start_offset >= 0]
            if opened and not described.error_code:
                first = min(opened, key=lambda one: one.current_txn_start_offset)
                yield (topic.name, described.partition_index), first.producer_id


@dataclass(slots=True, frozen=True)
class WaitingGroup:
    """A group, and the partitions in which an open transaction may hold it back.

    These are input partitions where the group has reached the last stable offset, and the group's partition of
    ``__consumer_offsets`` if a transaction has pending offsets there. Kafka does not show which group the offsets belong to;
    consumers of that group get UNSTABLE_OFFSET_COMMIT.
    """

    group: GroupDescription
    held: list[StableOffset]

    @property
    def behind(self) -> list[GroupPosition]:
        """Positions with a lag or without a committed offset, ordered by descending lag."""
        return sorted((p for p in self.group.positions if p.unread > 0 or p.committed is None), key=lambda p: -p.unread)


def waiting_group(brokers: BrokerConnections, group: str) -> WaitingGroup:
    """Describe a group and the reasons for its lag. Raises `KafkaAnswered` for an unknown group."""
    described = groups.describe(brokers, group)
    behind: dict[str, dict[int, GroupPosition]] = {}
    for position in described.positions:
        if position.unread > 0:
            behind.setdefault(position.topic, {})[position.partition] = position
    holding = []
    for topic, positions in sorted(behind.items()):
        for one in stable_offsets(brokers, topic, positions):
            position = positions[one.partition]
            at = position.start if position.committed is None else position.committed
            if one.holder is not None and at is not None and at >= one.last_stable_offset:
                holding.append(one)
    return WaitingGroup(group=described, held=[*_held_offsets(brokers, group), *holding])


def _held_offsets(brokers: BrokerConnections, group: str) -> list[StableOffset]:
    """Return the group's partition of ``__consumer_offsets`` if an open transaction has pending offsets there, else an empty
    list."""
    try:
        index = partition_for(group, len(brokers.partitions(OFFSETS_TOPIC)))
    except UnknownTopic:
        return []
    return [one for one in stable_offsets(brokers, OFFSETS_TOPIC, [index]) if one.holder is not None]
