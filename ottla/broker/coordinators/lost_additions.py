"""Adds partitions again to open transactions if a power cut removed the record that added them.

`coordinator.transaction.lost_additions` finds these partitions.
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
    """By transactional id, the records of added partitions that a power cut removed, and that the starting broker must log again.

    Also tracks the ids for which such a record must be on disk before the partition's first batch is written. Otherwise a restarted
    broker could not tell to which transaction the batch belongs.
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
        """Find partitions of open transactions that are missing in the state of the coordinators."""
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
        """Log the records that a power cut removed: a transaction's completion, and the partitions of the id's next transaction.

        Raises `KafkaError` if the log refuses a record; the caller must then retry.
        """
        lost = self._by_id[transactional_id]
        if shard.ids[transactional_id].state in PREPARED:
            # All markers of the decided transaction are on disk, because batches of the next transaction were written after them.
            runtime.execute(shard.complete(transactional_id, now_ms))
        runtime.execute(shard.add_partitions(transactional_id, lost.identity, lost.partitions, now_ms, TV2))
        del self._by_id[transactional_id]
        log.info("partitions_added_again", transactional_id=transactional_id, partitions=sorted(lost.partitions))

    def forget(self) -> None:
        """Forget all transactional ids, because ``__transaction_state`` was deleted."""
        self._by_id.clear()
        self._of_both_versions.clear()

    def note_synced(self) -> None:
        """Note that all records from before the broker's start are on disk."""
        self._has_synced = True

    def note_addition(self, before: TxnMetadata) -> None:
        """Note a transactional id's state before a client's first batch in a partition adds the partition to its transaction.

        After an upgrade of ``transaction.version`` an id's last transaction of version 1 and its first of version 2 have the same
        epoch. Until the version 1 transaction's completion is on disk, a restarted broker could confuse the batches of the two
        transactions, and write wrong markers.
        """
        if before.state in COMPLETED and before.client_transaction_version < TV2 and not self._barrier.never_waits:
            transactional_id = before.transactional_id
            self._of_both_versions.add(transactional_id)
            self._barrier.effect(lambda: self._of_both_versions.discard(transactional_id))

    def may_be_added_again(self, transactional_id: str) -> bool:
        """Whether a broker, restarted after a power cut, could tell from a batch alone to which of the id's transactions the batch
        belongs."""
        return self._has_synced and transactional_id not in self._of_both_versions
