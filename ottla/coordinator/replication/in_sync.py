"""The in-sync set of a partition as its leader knows it, and the changes that the leader asks the controller for (KIP-497).

A change is counted before the controller has made it, on the safe side: a replica that is to join holds the high watermark already,
and one that is to leave holds it still. That is the maximal in-sync set (PartitionState.maximalIsr).
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
    """The controller has refused a change in a way that says that the leader's view is old. Only metadata may change it now."""


NEXT_STATES = {
    InSyncState.COMMITTED: {InSyncState.COMMITTED, InSyncState.PENDING_EXPANSION, InSyncState.PENDING_SHRINK},
    InSyncState.PENDING_EXPANSION: {InSyncState.COMMITTED, InSyncState.AWAITING_METADATA},
    InSyncState.PENDING_SHRINK: {InSyncState.COMMITTED, InSyncState.AWAITING_METADATA},
    InSyncState.AWAITING_METADATA: {InSyncState.COMMITTED},
}

GIVEN_UP = frozenset({Code.OPERATION_NOT_ATTEMPTED, Code.INELIGIBLE_REPLICA})
"""Answers of AlterPartition after which the committed set counts again: the controller has surely not made the change."""
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
"""Answers after which nothing is asked again. The controller may have made the change all the same, so the maximal set stays."""


class IllegalIsrTransition(Exception):
    """The in-sync set cannot go from one state to another."""


class InSync(msgspec.Struct, frozen=True, kw_only=True):
    """``committed`` and ``proposed`` are broker ids, the leader's included. They are equal where no change is under way."""

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
        """The set that the controller has made or that metadata has brought."""
        return self._to(InSyncState.COMMITTED, in_sync, in_sync, partition_epoch)

    def refused(self, code: Code) -> InSync:
        """The set after the controller has refused a change. Unchanged where the request is to be sent again."""
        if code in GIVEN_UP:
            return self.now(self.committed, self.partition_epoch)
        if code in VIEW_IS_OLD:
            return self._to(InSyncState.AWAITING_METADATA, self.committed, self.proposed, self.partition_epoch)
        return self


@lru_cache(maxsize=1024)
def committed(in_sync: frozenset[int], partition_epoch: int) -> InSync:
    """The set without a change under way. Neighbours with equal sets share one object."""
    return InSync(state=InSyncState.COMMITTED, committed=in_sync, proposed=in_sync, partition_epoch=partition_epoch)
