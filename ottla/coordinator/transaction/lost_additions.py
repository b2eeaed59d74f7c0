"""Finds partitions whose addition to an open transaction was lost in a crash.

With transaction version 2 (KIP-890) the first batch in a partition adds the partition to the transaction. The batch is written
before the coordinator's record is on the disk, so a power cut may keep the batch and lose the record. No client has got a response
for either. The partition still shows which transaction the batch belongs to, because each transaction has an epoch of its own.
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
"""A function that returns the epoch of a producer id's open transaction in a partition, or None if there is none."""


class LostAddition(msgspec.Struct, gc=False, frozen=True):
    """A transactional id, and the partitions with an open transaction of this id that are missing in its metadata."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]


def open_identity(metadata: TxnMetadata) -> ProducerIdAndEpoch | None:
    """Return the producer id and epoch of batches that add their partition to the id's open or next transaction.

    If the transaction is decided, a new batch belongs to the next transaction. Transaction version 1 gives both transactions the
    same producer id and epoch. Then return None, because a batch could belong to either.
    """
    if metadata.state not in PREPARED:
        return ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
    return successor(metadata) if metadata.client_transaction_version >= TV2 else None


def is_lost(metadata: TxnMetadata, where: TopicPartition, identity: ProducerIdAndEpoch, open_epoch: OpenEpoch) -> bool:
    """Whether an open transaction in partition ``where`` belongs to this transactional id, whose metadata lack the partition.

    ``identity``: producer id and epoch of the open transaction.

    The result is False while markers of a decided transaction are missing: the next transaction begins only after all of them are
    on the disk, unless a power cut lost more than ``ottla.durability=power`` allows.
    """
    if open_identity(metadata) != identity or (metadata.state is TxnState.ONGOING and where in metadata.partitions):
        return False
    return metadata.state not in PREPARED or not any(_has_pending_marker(metadata, own, open_epoch) for own in metadata.partitions)


def _has_pending_marker(prepared: TxnMetadata, where: TopicPartition, open_epoch: OpenEpoch) -> bool:
    epoch = open_epoch(where, prepared.producer_id)
    return epoch is not None and epoch < prepared.producer_epoch


def find_lost_additions(
    ids: Iterable[TxnMetadata], open_transactions: Mapping[TopicPartition, Mapping[int, int]]
) -> list[LostAddition]:
    """Return the partitions to add again. ``open_transactions`` maps partitions to producer ids and epochs of open transactions."""

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
