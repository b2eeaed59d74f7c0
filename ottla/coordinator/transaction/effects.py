"""What follows from a decision about a transactional id once its record is in the log."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class RememberLastEpoch(Effect, frozen=True):
    """The epoch before the one that an id has now, -1 for none: the log cannot hold it (see `TxnMetadata.last_epoch`)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_epoch: int


class RememberEarlyCommit(Effect, frozen=True):
    """The id was told to come again with a commit, because nothing was open at this epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class CountDecision(Effect, frozen=True):
    """A transaction was decided: ``outcome`` (commit, abort, fenced or timeout) and how long it was open."""

    outcome: str
    open_ms: int


class SendMarkers(Effect, frozen=True):
    """The id's transaction is decided: its markers go out, and then it is completed."""

    transactional_id: str
