"""Checks the transactions of several brokers by committed data: the coordinators' records, the batches, and the markers.

`simulation.replicas` passes each batch to `note` once, when the high watermark of the first replica passes the batch. The
brokers' memory is not used, because it may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.markers import read_marker
from ottla.protocol.records import BatchHeader
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.watch import OUTCOMES, Identity
from ottla.storage.reading import records_of

COMPLETED = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


@dataclass(slots=True)
class _Decision:
    """A producer's last decided transaction, and the leader epoch of the coordinator that decided."""

    commit: bool
    leader_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class _Partition:
    """The transactions of one partition. ``open`` maps producer ids to first offsets of open transactions. ``markers`` counts
    markers by producer and epoch."""

    open: dict[int, int] = field(default_factory=dict)
    coordinator_epochs: dict[int, int] = field(default_factory=dict)
    markers: Counter[Identity] = field(default_factory=Counter)
    completed: Counter[Identity] = field(default_factory=Counter)
    has_gap: bool = False
    """Whether records were deleted before they were checked, so that the partition's transactions are unknown."""


class CommittedTransactions:
    """Checks the order of committed batches.

    A coordinator must add a partition to a transaction before the partition has batches of that transaction. A marker must match an
    earlier decision. A completed transaction must have all of its markers.
    """

    def __init__(
        self,
        finding: Callable[[str], None],
        reached: Counter[str],
        note_transaction: Callable[[str, TxnMetadata], None],
    ) -> None:
        """``note_transaction`` is called with each state of a transactional id, in the order of its log."""
        self._finding = finding
        self._reached = reached
        self._note_transaction = note_transaction
        self._decisions: dict[Identity, _Decision] = {}
        self._outcomes: dict[Identity, bool] = {}
        """For each decided or completed transaction, also without partitions: whether it was committed."""
        self._added: set[tuple[Identity, TopicPartition]] = set()
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._to_check: list[tuple[Identity, TopicPartition]] = []
        """Partitions of complete transactions whose markers `check_completed` must find."""

    def _of(self, where: TopicPartition) -> _Partition:
        return self._partitions.setdefault(where, _Partition())

    def note(self, where: TopicPartition, header: BatchHeader, batch: bytes) -> None:
        """Process the next committed batch of a partition."""
        if where[0] == TRANSACTION_TOPIC:
            for record in records_of(batch, header):
                name, metadata = from_record(LogRecord(record.key, record.value))
                if metadata is not None:
                    self._note_state(metadata, header.leader_epoch)
                    self._note_transaction(name, metadata)
        elif header.is_control:
            self._note_marker(where, header, batch)
        elif header.is_transactional:
            identity = (header.producer_id, header.producer_epoch)
            if (identity, where) not in self._added:
                self._finding(f"a batch of {identity} in {where} at {header.base_offset}: no coordinator has added the partition")
            self._of(where).open.setdefault(header.producer_id, header.base_offset)

    def skipped(self, where: TopicPartition) -> None:
        """Record that committed records of a partition were deleted before they were checked."""
        self._of(where).has_gap = True

    def _note_state(self, metadata: TxnMetadata, leader_epoch: int) -> None:
        identity = (metadata.producer_id, metadata.producer_epoch)
        outcome = OUTCOMES.get(metadata.state)
        if outcome is not None:
            self._outcomes[identity] = outcome
        self._added.update((identity, where) for where in metadata.partitions)
        if metadata.state in PREPARED:
            self._decisions[identity] = _Decision(OUTCOMES[metadata.state], leader_epoch, metadata.partitions)
        elif metadata.state in COMPLETED:
            decision = self._decisions.get(identity)
            for where in () if decision is None else decision.partitions:
                self._of(where).completed[identity] += 1
                self._to_check.append((identity, where))

    def _note_marker(self, where: TopicPartition, header: BatchHeader, batch: bytes) -> None:
        marker = read_marker(batch, header)
        if marker is None:
            return
        partition, identity = self._of(where), (header.producer_id, header.producer_epoch)
        partition.open.pop(header.producer_id, None)
        partition.markers[identity] += 1
        decision = self._decisions.get(identity)
        if decision is None or decision.commit is not marker.commit:
            wanted = "nothing" if decision is None else "a commit" if decision.commit else "an abort"
            self._finding(f"a marker of {identity} in {where} says commit={marker.commit}; {wanted} was decided")
        elif marker.coordinator_epoch < decision.leader_epoch:
            by = f"coordinator epoch {marker.coordinator_epoch}"
            self._finding(f"a marker of {identity} in {where} by {by}; epoch {decision.leader_epoch} decided the transaction")
        newest = partition.coordinator_epochs.get(header.producer_id, -1)
        if marker.coordinator_epoch < newest:
            self._finding(f"a marker of {identity} in {where} by coordinator epoch {marker.coordinator_epoch}, after {newest}")
        elif marker.coordinator_epoch > newest >= 0:
            self._reached["a marker of a newer coordinator"] += 1
        partition.coordinator_epochs[header.producer_id] = marker.coordinator_epoch

    # checks after all committed batches were passed to `note`

    def check_completed(self) -> None:
        """Check that each partition of a complete transaction has its marker."""
        for identity, where in self._to_check:
            partition = self._of(where)
            if partition.markers[identity] < partition.completed[identity] and not partition.has_gap:
                self._finding(f"the transaction of {identity} is complete, but {where} has no marker")
        self._to_check.clear()

    def check_acknowledged(self, acknowledged: list[tuple[Identity, bool]]) -> None:
        """Check that each outcome that a client received is in the committed log. Empties ``acknowledged``."""
        for identity, commit in acknowledged:
            decided = self._outcomes.get(identity)
            if decided is not commit:
                wanted = "nothing" if decided is None else "a commit" if decided else "an abort"
                self._finding(f"a client of {identity} received commit={commit}; {wanted} was decided")
        acknowledged.clear()

    def stable_offset(self, where: TopicPartition, high_watermark: int, log_start_offset: int) -> int | None:
        """Return the last stable offset of a replica that has all committed records, or None if `skipped` was called."""
        partition = self._of(where)
        if partition.has_gap:
            return None
        return max(min(partition.open.values(), default=high_watermark), log_start_offset)
