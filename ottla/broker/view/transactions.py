"""The transactional ids that this broker coordinates, with their state, producer and partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import msgspec

from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.view.coordinators import Listed, elsewhere, shard_of
from ottla.broker.view.partitions import holder
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.java_hash import id_work, partition_for
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TxnState

OPEN_STATES = frozenset((TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT))
"""The states of a transaction that is not completed yet."""
PARTITIONS_PER_WORK = 4
"""Number of a transaction's partitions that are sorted in about 2 us."""


class Ports(Protocol):
    cluster: ClusterCommands
    partitions: Partitions
    transactions: Transactions


class TransactionListing(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id. ``is_open``: its transaction is not completed yet. ``coordinator`` is the node id of the broker that has
    listed the id; None in the view of a broker itself."""

    transactional_id: str
    state: str
    is_open: bool
    coordinator: int | None = None


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator's state of a transactional id. ``start_ms`` is None while no transaction is open.

    ``partitions`` are the transaction's partitions; after the decision, only partitions with a pending marker.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: list[TopicPartition]


async def transactions(ports: Ports) -> Listed[TransactionListing]:
    """List the transactional ids of this broker, in no particular order. Raises COORDINATOR_LOAD_IN_PROGRESS."""
    if ports.transactions.is_loading:
        raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS, "the transaction coordinator is loading transactional ids")
    rows, pace = [], Pace()
    for metadata in _known(ports):
        if metadata.state is not TxnState.DEAD:
            state, is_open = metadata.state.label, metadata.state in OPEN_STATES
            rows.append(TransactionListing(transactional_id=metadata.transactional_id, state=state, is_open=is_open))
        if pace.spend(1):
            await next_turn()
    return Listed(rows=rows, missing=elsewhere(ports.cluster.state, TRANSACTION_TOPIC, "transactional ids"))


def _known(ports: Ports) -> Iterator[TxnMetadata]:
    for shard in ports.transactions.shards():
        yield from list(shard.ids.values())


async def described(ports: Ports, transactional_ids: Sequence[str]) -> list[TransactionDescription]:
    """Describe some transactional ids of this broker, in the order of the argument, without ids that have expired or whose
    coordinator has moved."""
    found, pace = list[TransactionDescription](), Pace()
    shards = {shard.partition: shard for shard in ports.transactions.shards()}
    topic = ports.cluster.state.topics.get(TRANSACTION_TOPIC)
    if topic is None:
        return found
    for transactional_id in transactional_ids:
        shard = shards.get(partition_for(transactional_id, topic.partition_count))
        metadata = None if shard is None else shard.ids.get(transactional_id)
        work = id_work(transactional_id)
        if metadata is not None:
            found.append(_described(ports, metadata))
            work += len(metadata.partitions) // PARTITIONS_PER_WORK
        if pace.spend(work):
            await next_turn()
    return found


def transaction(ports: Ports, transactional_id: str) -> TransactionDescription | None:
    """Describe a transactional id, or return None if its coordinator does not know it. Raises the errors of `shard_of`."""
    what = f"transactional id {transactional_id!r}"
    shard = shard_of(ports, TRANSACTION_TOPIC, ports.transactions.shards(), transactional_id, what)
    metadata = None if shard is None else shard.ids.get(transactional_id)
    return None if metadata is None else _described(ports, metadata)


async def of_producers(ports: Ports, producer_ids: Collection[int]) -> dict[int, TransactionDescription]:
    """Return, by producer id, the open transactions of some producers, if this broker coordinates them."""
    found, pace = dict[int, TransactionDescription](), Pace()
    for metadata in _known(ports) if producer_ids else ():
        if metadata.producer_id in producer_ids and metadata.state in OPEN_STATES:
            found[metadata.producer_id] = _described(ports, metadata)
        if pace.spend(1):
            await next_turn()
    return found


async def holding_ids(ports: Ports, partitions: Sequence[TopicPartition]) -> list[str | None]:
    """Return the transactional id of the transaction that holds back each partition's last stable offset. None if this broker
    coordinates no such transaction."""
    holders = [holder(ports, topic, index) for topic, index in partitions]
    producers = [None if found is None else found[1].producer_id for found in holders]
    known = await of_producers(ports, {producer for producer in producers if producer is not None})
    return [known[producer].transactional_id if producer in known else None for producer in producers]


def _described(ports: Ports, metadata: TxnMetadata) -> TransactionDescription:
    # Check the state as well, because the coordinator keeps the start time of a completed transaction.
    has_begun = metadata.state in OPEN_STATES and metadata.start_ms >= 0
    return TransactionDescription(
        transactional_id=metadata.transactional_id,
        state=metadata.state.label,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        timeout_ms=metadata.timeout_ms,
        start_ms=metadata.start_ms if has_begun else None,
        partitions=sorted(ports.transactions.pending_partitions(metadata)),
    )
