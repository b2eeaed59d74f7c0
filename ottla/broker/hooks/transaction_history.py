"""The interface of the listener for events of transactional ids that no log contains: requests, errors, fencings.

Kafka's APIs do not offer these events. The logs contain decisions that a client requested, written markers and completed
transactions, so no events report them. Added partitions are in the logs as well, and are reported only if their client is not
known to own the id. A transaction without offsets causes one event, for its EndTxn. Produced and fetched batches cause no events.
The listener is `ottla.control.history`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from itertools import islice
from typing import Protocol, TypeAlias

import msgspec

from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.protocol.errors import Code
from ottla.protocol.topic_partition import TopicPartition

PARTITIONS_KEPT = 20
"""Maximum number of partitions that an event lists. All partitions are counted."""
TEXT_CHARACTERS = 249
"""Maximum number of characters of a client's string that an event keeps: Kafka's limit for topic names."""


class Kind(StrEnum):
    REQUEST = "request"
    """The broker has responded to a client's request."""
    FENCED = "fenced"
    """A producer has fenced an older producer of the transactional id."""
    DECIDED = "decided"
    """A transaction was aborted without an EndTxn request: ``outcome`` is ``fenced`` or ``timeout``."""
    MARKERS = "markers"
    """Markers were refused with ``error``."""


UNASKED_OUTCOMES = frozenset(("fenced", "timeout"))


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """A client and the API that it used. All requests to one API on one connection share one object."""

    client_id: str
    client_host: str
    api: str = ""
    version: int = -1


# With `gc=False` the garbage collector ignores events, which are never part of reference cycles.
class Happened(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a transactional id. ``producer_id`` and ``producer_epoch`` come from the request, or from the transaction.

    An event refers to existing objects. It is converted to readable text only when it is requested (`ottla.control.history`).
    """

    time_ms: int
    kind: Kind
    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    error: int = Code.NONE
    asker: Asker | None = None
    group_id: str = ""
    outcome: str = ""
    new_producer_id: int = -1
    new_producer_epoch: int = -1
    """The producer id and epoch in a response; with `Kind.FENCED` the id and epoch of the newer producer."""
    partition_count: int = 0
    partitions: Collection[TopicPartition] = ()
    """At most `PARTITIONS_KEPT` partitions of the event, in any order."""


Ended: TypeAlias = tuple[int, Asker, str, int, int, int, bool, int, int]
"""An EndTxn: its time in ms since 1970, the client, the transactional id, producer id and epoch, the error code, whether it
commits, and the producer id and epoch of the response. Every transaction has an EndTxn, so only this tuple is stored;
`event_of_end` builds the larger `Happened` from it on demand."""


class TransactionListener(Protocol):
    def happened(self, event: Happened) -> None:
        """Called for each event that neither `ended` nor `taken` reports."""
        ...

    def ended(self, request: Ended) -> None:
        """Called with each EndTxn request and its response."""
        ...

    def taken(self, event: Happened) -> None:
        """Called for each successful InitProducerId: its client now owns the transactional id."""
        ...

    def is_held_by(self, transactional_id: str, asker: Asker) -> bool:
        """Whether the client is known to own the transactional id. After the broker's start no owners are known."""
        ...


def event_of_end(request: Ended) -> Happened:
    """The event of an EndTxn request."""
    come_ms, asker, transactional_id, producer_id, producer_epoch, error, is_commit, new_producer_id, new_producer_epoch = request
    return Happened(
        time_ms=come_ms,
        kind=Kind.REQUEST,
        asker=asker,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        error=error,
        outcome="commit" if is_commit else "abort",
        new_producer_id=new_producer_id,
        new_producer_epoch=new_producer_epoch,
    )


def cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else text[:TEXT_CHARACTERS] + "..."


def first_partitions(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return the first `PARTITIONS_KEPT` partitions of a request, with topic names cut to `TEXT_CHARACTERS`."""
    return tuple([(cut(topic), partition) for topic, partition in islice(partitions, PARTITIONS_KEPT)])


def of_transaction(
    kind: Kind,
    metadata: TxnMetadata,
    outcome: str,
    now_ms: int,
    partitions: Collection[TopicPartition] | None = None,
    error: int = Code.NONE,
) -> Happened:
    """An event of a transaction that concerns ``partitions``, by default all its partitions. Topic names are not cut."""
    where = metadata.partitions if partitions is None else partitions
    return Happened(
        time_ms=now_ms,
        kind=kind,
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        outcome=outcome,
        error=error,
        partitions=where if len(where) <= PARTITIONS_KEPT else first_partitions(where),
        partition_count=len(where),
    )
