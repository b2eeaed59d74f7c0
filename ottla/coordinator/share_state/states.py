"""The states of a record in a share partition, and the transitions between them (RecordState of Kafka)."""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """The state of a record. The values occur in the log and in requests to a share coordinator."""

    AVAILABLE = 0
    """The record waits for its first or next delivery."""
    ACQUIRED = 1
    """A member has the record, under a lock that expires."""
    ACKNOWLEDGED = 2
    """A member has processed the record. It is never delivered again."""
    ARCHIVING = 3
    """The record is discarded, and must still be written to the group's dead-letter topic (KIP-1191), also after a restart."""
    ARCHIVED = 4
    """The record is discarded: rejected, delivered too often, or not for consumers."""


S = RecordState

VALID_NEXT: dict[RecordState, frozenset[RecordState]] = {
    # AVAILABLE to ARCHIVED without a delivery: compaction or retention has removed the record, or its transaction was aborted.
    S.AVAILABLE: frozenset({S.ACQUIRED, S.ARCHIVED}),
    S.ACQUIRED: frozenset({S.AVAILABLE, S.ACKNOWLEDGED, S.ARCHIVING, S.ARCHIVED}),
    S.ACKNOWLEDGED: frozenset(),
    S.ARCHIVING: frozenset({S.ARCHIVED}),
    S.ARCHIVED: frozenset(),
}

TERMINAL = frozenset({S.ACKNOWLEDGED, S.ARCHIVED})


class AcknowledgeType(IntEnum):
    """A member's acknowledgement of a record (org.apache.kafka.clients.consumer.AcknowledgeType)."""

    GAP = 0
    """The offset has no record for consumers: compaction has removed it, or it is a control record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Restart the record's lock (KIP-1222)."""


OUTCOME: dict[AcknowledgeType, RecordState] = {
    AcknowledgeType.GAP: S.ARCHIVED,
    AcknowledgeType.ACCEPT: S.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: S.AVAILABLE,
    AcknowledgeType.REJECT: S.ARCHIVED,
}
"""The state of an acquired record after its acknowledgement. RENEW keeps the state. With a dead-letter topic, rejected records are
ARCHIVING first."""


class IllegalRecordTransition(Exception):
    """Raised for a forbidden change of a record's state: a bug."""


def check_transition(before: RecordState, after: RecordState) -> None:
    if after not in VALID_NEXT[before]:
        raise IllegalRecordTransition(f"{before.name} -> {after.name}")
