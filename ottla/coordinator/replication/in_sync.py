"""A leader's view of the in-sync set, and the changes that it requests from the controller (KIP-497).

While a change is pending, the maximal in-sync set applies (PartitionState.maximalIsr of Kafka): a joining replica already holds
back the high watermark, and a leaving replica still does.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache

import msgspec

from ottla.protocol.errors import Code


class InSyncState(Enum):
    COMMITTED = auto()
    PENDING_EXPANSION = auto()
    PENDING_SHRINK = auto()
    AWAITING_METADATA = auto()
    """The controller rejected a change because the leader's metadata is old. Only new metadata ends this state."""


NEXT_STATES = {
    InSyncState.COMMITTED: {InSyncState.COMMITTED, InSyncState.PENDING_EXPANSION, InSyncState.PENDING_SHRINK},
    InSyncState.PENDING_EXPANSION: {InSyncState.COMMITTED, InSyncState.AWAITING_METADATA},
    InSyncState.PENDING_SHRINK: {InSyncState.COMMITTED, InSyncState.AWAITING_METADATA},
    InSyncState.AWAITING_METADATA: {InSyncState.COMMITTED},
}

GIVEN_UP = frozenset({Code.OPERATION_NOT_ATTEMPTED, Code.INELIGIBLE_REPLICA})
"""Errors of AlterPartition after which the committed in-sync set applies again, because the controller cannot have made the change.
"""
VIEW_IS_OLD = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.INVALID_UPDATE_VERSION,
        Code.FENCED_LEADER_EPOCH,
        Code.INVALID_REQUEST,
        Code.NEW_LEADER_ELECTED,
    }
)
"""Errors after which AlterPartition is not retried. The maximal in-sync set still applies: the controller may have made the
change."""


class IllegalIsrTransition(Exception):
    """Raised for a forbidden change of an in-sync set's state: a bug."""


class InSync(msgspec.Struct, frozen=True, kw_only=True):
    """The in-sync set of one partition. ``committed`` and ``proposed`` are broker ids, including the leader's. They are equal while
    no change is pending."""

    state: InSyncState
    committed: frozenset[int]
    proposed: frozenset[int]
    partition_epoch: int

    @property
    def maximal(self) -> frozenset[int]:
        return self.committed | self.proposed

    @property
    def is_in_flight(self) -> bool:
        return self.state is not InSyncState.COMMITTED

    def _to(self, state: InSyncState, committed: frozenset[int], proposed: frozenset[int], partition_epoch: int) -> InSync:
        if state not in NEXT_STATES[self.state]:
            raise IllegalIsrTransition(f"{self.state.name} to {state.name}")
        assert partition_epoch >= self.partition_epoch, f"partition epoch {partition_epoch} after {self.partition_epoch}"
        return InSync(state=state, committed=committed, proposed=proposed, partition_epoch=partition_epoch)

    def with_replica(self, broker_id: int) -> InSync:
        assert broker_id not in self.committed, f"{broker_id} is in sync already"
        return self._to(InSyncState.PENDING_EXPANSION, self.committed, self.committed | {broker_id}, self.partition_epoch)

    def without(self, broker_ids: frozenset[int]) -> InSync:
        assert broker_ids < self.committed, f"{set(broker_ids)} are not part of {set(self.committed)}"
        return self._to(InSyncState.PENDING_SHRINK, self.committed, self.committed - broker_ids, self.partition_epoch)

    def now(self, in_sync: frozenset[int], partition_epoch: int) -> InSync:
        """Return the in-sync set after a change by the controller's response or newer metadata."""
        return self._to(InSyncState.COMMITTED, in_sync, in_sync, partition_epoch)

    def refused(self, code: Code) -> InSync:
        """Return the in-sync set after the controller rejected a change, or the same object if the request must be retried."""
        if code in GIVEN_UP:
            return self.now(self.committed, self.partition_epoch)
        if code in VIEW_IS_OLD:
            return self._to(InSyncState.AWAITING_METADATA, self.committed, self.proposed, self.partition_epoch)
        return self


@lru_cache(maxsize=1024)
def committed(in_sync: frozenset[int], partition_epoch: int) -> InSync:
    """Return an in-sync set without a pending change. Partitions with equal sets share one object."""
    return InSync(state=InSyncState.COMMITTED, committed=in_sync, proposed=in_sync, partition_epoch=partition_epoch)
