"""Classifies error codes by how a client reacts, for `ottla.client` and `ottla.spark`. A client does not retry after a code that is
in none of the sets.

Kafka classifies codes by the exception classes of its `Errors` (RetriableException, TransactionAbortableException, KIP-1050).
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
"""Temporary errors: leaders and coordinators move, or are still loading. The client sends the same request again.

Some retriable errors of Kafka are left out: errors that a wrong name also causes (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID),
errors of fetch and share sessions, and CORRUPT_MESSAGE, because a retry would send the same corrupt bytes.
"""

ABORTABLE: Final = frozenset({Code.TRANSACTION_ABORTABLE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID})
"""The client must abort the transaction (KIP-890), and may write the same records in the next transaction."""

FENCED: Final = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.TRANSACTION_COORDINATOR_FENCED,
        Code.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Another producer owns the transactional id, or the producer id has expired: the producer's transaction is over."""


def code_of(number: int) -> Code:
    """The error with this number; UNKNOWN_SERVER_ERROR for a number that ottla does not know."""
    try:
        return Code(number)
    except ValueError:
        return Code.UNKNOWN_SERVER_ERROR


def name_of(number: int) -> str:
    """Kafka's name of the error with this number."""
    try:
        return Code(number).name
    except ValueError:
        return f"error {number}"
