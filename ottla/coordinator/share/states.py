"""The states of a record in a share partition and the moves between them (org.apache.kafka.server.share.fetch.RecordState)."""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """Values are those in the log and in the requests to a share coordinator."""

    AVAILABLE = 0
    """To be delivered, for the first time or again."""
    ACQUIRED = 1
    """With a member, under a lock that times out."""
    ACKNOWLEDGED = 2
    """Processed: never delivered again."""
    ARCHIVING = 3
    """Given up, and about to be told of in the group's dead-letter topic (KIP-1191). A start goes on where it was left."""
    ARCHIVED = 4
    """Given up: rejected, delivered too often, or no record for a consumer at all."""


S = RecordState

VALID_NEXT: dict[RecordState, frozenset[RecordState]] = {
    # Given up without a delivery: what compaction, retention or an abort has made meaningless.
    S.AVAILABLE: frozenset({S.ACQUIRED, S.ARCHIVED}),
    S.ACQUIRED: frozenset({S.AVAILABLE, S.ACKNOWLEDGED, S.ARCHIVING, S.ARCHIVED}),
    S.ACKNOWLEDGED: frozenset(),
    S.ARCHIVING: frozenset({S.ARCHIVED}),
    S.ARCHIVED: frozenset(),
}

TERMINAL = frozenset({S.ACKNOWLEDGED, S.ARCHIVED})


class AcknowledgeType(IntEnum):
    """What a member says of a record (org.apache.kafka.clients.consumer.AcknowledgeType)."""

    GAP = 0
    """There is no record for a consumer at this offset: compaction has taken it, or it is a control record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The lock begins anew (KIP-1222)."""


OUTCOME: dict[AcknowledgeType, RecordState] = {
    AcknowledgeType.GAP: S.ARCHIVED,
    AcknowledgeType.ACCEPT: S.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: S.AVAILABLE,
    AcknowledgeType.REJECT: S.ARCHIVED,
}
"""What becomes of an acquired record. Renewing changes no state. With a dead-letter topic what is rejected is archiving first."""


class IllegalTransition(Exception):
    """A bug: a move that the table does not have."""


def check_transition(before: RecordState, after: RecordState) -> None:
    if after not in VALID_NEXT[before]:
        raise IllegalTransition(f"{before.name} -> {after.name}")
