"""The effects of decisions about transactional ids, each carried out once the decision's record is in the log."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class RememberLastEpoch(Effect, frozen=True):
    """Keep the producer's previous epoch (-1: none) in memory, because records have no field for it (`TxnMetadata.last_epoch`)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_epoch: int


class RememberEarlyCommit(Effect, frozen=True):
    """Remember that a commit got CONCURRENT_TRANSACTIONS because no transaction was open at this epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class CountDecision(Effect, frozen=True):
    """Count a decided transaction by its ``outcome`` (commit, abort, fenced or timeout) and its duration in ms."""

    transactional_id: str
    outcome: str
    open_ms: int


class SendMarkers(Effect, frozen=True):
    """Send the markers of the id's decided transaction, then complete the transaction."""

    transactional_id: str
