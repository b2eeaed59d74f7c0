"""Which open transactions of partitions their coordinator has to be told of again.

With transaction version 2 (KIP-890) the first batch in a partition adds it to the transaction, and the batch is written without
waiting until the coordinator's record is on the disk. So a power cut may keep the batch and lose the record. No client was told of
either, and the partition still says to which transaction the batch belongs, because each transaction has an epoch of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.coordinator.transaction.states import PREPARED
from ottla.coordinator.transaction.transitions import successor
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TV2, TxnState

OpenEpoch = Callable[[TopicPartition, int], int | None]
"""The epoch with which a producer id has an open transaction in a partition; None where none is open."""


class LostAddition(msgspec.Struct, gc=False, frozen=True):
    """A transactional id, and the partitions in which it has an open transaction that its metadata do not name."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]


def open_identity(metadata: TxnMetadata) -> ProducerIdAndEpoch | None:
    """The identity with which batches may come that add their partition to the id's open transaction, or to its next one.

    After a decision that is the next transaction, whose batches are written only after the decision's markers are on the disk. None
    where a decided transaction of version 1 has the identity of its successor, so that a batch could belong to either.
    """
    if metadata.state not in PREPARED:
        return ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
    return successor(metadata) if metadata.client_version >= TV2 else None


def is_lost(metadata: TxnMetadata, where: TopicPartition, identity: ProducerIdAndEpoch, open_epoch: OpenEpoch) -> bool:
    """Whether an open transaction of ``identity`` in a partition belongs to this id, whose metadata have lost it.

    A decided transaction is left alone as long as one of its own partitions lacks the marker: its successor has begun nowhere then,
    unless a power cut took more than ``ottla.durability=power`` allows.
    """
    if open_identity(metadata) != identity or (metadata.state is TxnState.ONGOING and where in metadata.partitions):
        return False
    return metadata.state not in PREPARED or not any(_owes_marker(metadata, own, open_epoch) for own in metadata.partitions)


def _owes_marker(prepared: TxnMetadata, where: TopicPartition, open_epoch: OpenEpoch) -> bool:
    epoch = open_epoch(where, prepared.producer_id)
    return epoch is not None and epoch < prepared.producer_epoch


def find_lost_additions(
    ids: Iterable[TxnMetadata], open_transactions: Mapping[TopicPartition, Mapping[int, int]]
) -> list[LostAddition]:
    """The partitions that have to be added again. ``open_transactions``: for each partition the producers and their epochs."""

    def open_epoch(where: TopicPartition, producer_id: int) -> int | None:
        return open_transactions.get(where, {}).get(producer_id)

    places: dict[ProducerIdAndEpoch, list[TopicPartition]] = {}
    for where, epochs in open_transactions.items():
        for producer_id, epoch in epochs.items():
            places.setdefault(ProducerIdAndEpoch(producer_id, epoch), []).append(where)
    lost = []
    for metadata in ids:
        identity = open_identity(metadata)
        if identity is None or identity not in places:
            continue
        partitions = frozenset(where for where in places[identity] if is_lost(metadata, where, identity, open_epoch))
        if partitions:
            lost.append(LostAddition(metadata.transactional_id, identity, partitions))
    return lost
