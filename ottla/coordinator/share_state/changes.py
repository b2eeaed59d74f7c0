"""The pending changes of a command to the records in a share partition, and which of them to persist."""

from __future__ import annotations

import msgspec

from ottla.coordinator.share_state.batches import StateBatch
from ottla.coordinator.share_state.in_flight import InFlightBatch, RecordStatus
from ottla.coordinator.share_state.states import OUTCOME, AcknowledgeType, RecordState

REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class SharePartitionConfig(msgspec.Struct, frozen=True):
    """Configs of the broker or the group, such as ``group.share.record.lock.duration.ms``."""

    lock_duration_ms: int = 30_000
    max_delivery_count: int = 5
    max_record_locks: int = 2_000
    is_renewal_enabled: bool = True
    has_dead_letters: bool = False
    """Whether a discarded record gets a dead letter before it is archived (KIP-1191)."""


class DeadLetters(msgspec.Struct, frozen=True):
    """Adjacent records that the group discards for one reason.

    Their dead letters must be written; then `SharePartition.dead_lettered` archives the records.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    reason: str


class Draft:
    """Copies of the batches that a command changes, and the changes to persist."""

    def __init__(self, config: SharePartitionConfig) -> None:
        self._config = config
        self.copies: dict[int, InFlightBatch] = {}
        """Copies of the changed batches, by first offset."""
        self.written: list[StateBatch] = []
        self.dead_letters: list[DeadLetters] = []

    def end(self, batch: InFlightBatch, first: int, last: int, acknowledge_type: AcknowledgeType) -> None:
        """End the lock of records with one status. Records at the maximum number of deliveries do not become available again."""
        config = self._config
        ((_, _, status),) = self.runs(batch, first, last)
        state, reason = OUTCOME[acknowledge_type], None
        if acknowledge_type is AcknowledgeType.REJECT:
            reason = REJECTED
        elif state is RecordState.AVAILABLE and status.delivery_count >= config.max_delivery_count:
            state, reason = RecordState.ARCHIVED, DELIVERED_TOO_OFTEN
        if reason is not None and config.has_dead_letters:
            state = RecordState.ARCHIVING
            self._add_dead_letters(DeadLetters(first, last, status.delivery_count, reason))
        self.assign(batch, first, last, status.ended(state))

    def _add_dead_letters(self, letters: DeadLetters) -> None:
        before = self.dead_letters[-1] if self.dead_letters else None
        if before is not None and before.last_offset + 1 == letters.first_offset:
            joined = msgspec.structs.replace(before, last_offset=letters.last_offset)
            if joined == msgspec.structs.replace(letters, first_offset=before.first_offset):
                self.dead_letters[-1] = joined
                return
        self.dead_letters.append(letters)

    def runs(self, batch: InFlightBatch, first: int, last: int) -> list[tuple[int, int, RecordStatus]]:
        return list(self.copies.get(batch.first_offset, batch).runs(first, last))

    def assign(self, batch: InFlightBatch, first: int, last: int, status: RecordStatus, *, is_persisted: bool = True) -> None:
        copy = self.copies.get(batch.first_offset)
        if copy is None:
            copy = self.copies[batch.first_offset] = batch.copy()
        copy.assign(first, last, status)
        if not is_persisted:
            return
        before = self.written[-1] if self.written else None
        if before is not None and (before.last_offset + 1, *before[2:]) == (first, status.state, status.delivery_count):
            # Batches are joined across the bounds of in-flight batches, because the number of persisted batches is limited.
            self.written[-1] = before._replace(last_offset=last)
        else:
            self.written.append(StateBatch(first, last, status.state, status.delivery_count))
