"""The remedies of clients for error codes, shared by `ottla.client` and `ottla.spark`. A code in none of the sets is final.

Kafka's own table is the classes of exceptions behind its `Errors` (RetriableException, TransactionAbortableException, KIP-1050).
"""

from __future__ import annotations

from typing import Final

from ottla.protocol.errors import Code

RETRIABLE: Final = frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NOT_CONTROLLER,
        Code.CONCURRENT_TRANSACTIONS,
        Code.KAFKA_STORAGE_ERROR,
        Code.LISTENER_NOT_FOUND,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors that pass by themselves: leaders and coordinators move, and load what they need. The same request is sent again.

Of Kafka's retriable ones those are left out that a wrong name gives as well (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID), those
about fetch and share sessions, and CORRUPT_MESSAGE: over TCP the same bytes are as corrupt again.
"""

ABORTABLE: Final = frozenset({Code.TRANSACTION_ABORTABLE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID})
"""The transaction has to be aborted (KIP-890); the same records may be written in the next one."""

FENCED: Final = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.TRANSACTION_COORDINATOR_FENCED,
        Code.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The producer's identity is another's, or nobody's, by now: its transaction is over."""


def code_of(number: int) -> Code:
    """UNKNOWN_SERVER_ERROR for a number that ottla does not know."""
    try:
        return Code(number)
    except ValueError:
        return Code.UNKNOWN_SERVER_ERROR


def name_of(number: int) -> str:
    """Kafka's name of an error."""
    try:
        return Code(number).name
    except ValueError:
        return f"error {number}"
