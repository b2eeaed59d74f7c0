"""Adds partitions again to open transactions that lost the record of the addition in a power cut.

The rule is in `coordinator.transaction.lost_additions`.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.runtime import Runtime
from ottla.coordinator.transaction.lost_additions import LostAddition, find_lost_additions
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import COMPLETED, PREPARED
from ottla.protocol.transaction_states import TV2
from ottla.storage.log_dir import LogDirectory

log = structlog.get_logger("transactions")


class LostAdditions:
    """The lost additions that this start has to repeat, by transactional id.

    Also tracks the ids for which an addition must be on disk before the partition's first batch is written, because a later start
    could not tell to which transaction the batch belongs.
    """

    def __init__(self, barrier: Barrier, directory: LogDirectory) -> None:
        self._barrier = barrier
        self._directory = directory
        self._by_id: dict[str, LostAddition] = {}
        self._has_synced = barrier.never_waits
        self._of_both_versions: set[str] = set()

    def __contains__(self, transactional_id: object) -> bool:
        return transactional_id in self._by_id

    def transactional_ids(self) -> list[str]:
        return list(self._by_id)

    def find(self, shards: Iterable[TransactionShard]) -> None:
        """Find lost additions by comparing the open transactions of all partitions with the coordinators' metadata."""
        open_transactions = {
            (partition_log.topic, partition_log.partition): {
                producer_id: partition_log.producers.entries[producer_id].epoch for producer_id in partition_log.producers.open_txns
            }
            for partition_log in self._directory.logs.values()
            if partition_log.producers.open_txns
        }
        for shard in shards if open_transactions else ():
            self._by_id |= {lost.transactional_id: lost for lost in find_lost_additions(shard.ids.values(), open_transactions)}

    def add_again(self, transactional_id: str, shard: TransactionShard, runtime: Runtime, now_ms: int) -> None:
        """Log the records that a power cut has lost: a transaction's completion, and the partitions of the next transaction.

        Raises `KafkaError` if the log refuses a record; the caller then retries later.
        """
        lost = self._by_id[transactional_id]
        if shard.ids[transactional_id].state in PREPARED:
            # The batches of the next transaction were written after the markers of this transaction were on disk.
            runtime.execute(shard.complete(transactional_id, now_ms))
        runtime.execute(shard.add_partitions(transactional_id, lost.identity, lost.partitions, now_ms, TV2))
        del self._by_id[transactional_id]
        log.info("partitions_added_again", transactional_id=transactional_id, partitions=sorted(lost.partitions))

    def forget(self) -> None:
        """Forget all additions, because ``__transaction_state`` was deleted."""
        self._by_id.clear()
        self._of_both_versions.clear()

    # additions that must be on disk first

    def note_synced(self) -> None:
        """Note that all records from earlier runs of the broker are on disk."""
        self._has_synced = True

    def note_addition(self, before: TxnMetadata) -> None:
        """Note the state of an id before a client's first batch adds a partition.

        After an upgrade of ``transaction.version`` a transaction of version 1 has the same epoch as the following transaction of
        version 2. Until the completion of the first transaction is on disk, a start could mistake batches of the second for batches
        of the first, and end them with the wrong markers.
        """
        if before.state in COMPLETED and before.client_version < TV2 and not self._barrier.never_waits:
            transactional_id = before.transactional_id
            self._of_both_versions.add(transactional_id)
            self._barrier.effect(lambda: self._of_both_versions.discard(transactional_id))

    def may_be_added_again(self, transactional_id: str) -> bool:
        """Whether a start could tell from a partition's batch alone to which transaction of the id the batch belongs."""
        return self._has_synced and transactional_id not in self._of_both_versions
