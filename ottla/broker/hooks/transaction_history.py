"""The port to a listener that records events of transactional ids which no log contains: requests, refusals, fencings.

Kafka's APIs have no place for it. Decisions that a client has asked for, markers that were written and completed transactions are
in the logs, and are not reported; partitions that were added are there too, and are reported only where their client is not known
to have the id. With a listener (`ottla.control.history`) a transaction without offsets costs one event, that of its EndTxn, and
without one a few comparisons with None; a batch that is taken or fetched costs nothing.
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
"""How many partitions of one event are named. All of them are counted."""
TEXT_CHARACTERS = 249
"""Of a name that a client gives, which may have 32,767. What is longer is cut. Kafka takes no longer name of a topic."""


class Kind(StrEnum):
    REQUEST = "request"
    """A client's request was answered."""
    FENCED = "fenced"
    """A producer has taken the id over from another one, which is fenced by it."""
    DECIDED = "decided"
    """A transaction was aborted that no client has asked to end: ``outcome`` is one of `UNASKED_OUTCOMES`."""
    MARKERS = "markers"
    """Markers were refused with ``error``."""


UNASKED_OUTCOMES = frozenset(("fenced", "timeout"))


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """A client, and the API that it has used. One object serves all its requests of this API on one connection."""

    client_id: str
    client_host: str
    api: str = ""
    version: int = -1


# Without `gc`, the collector need not walk events: they refer to nothing that refers to them.
class Happened(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a transactional id. ``producer_id`` and ``producer_epoch`` are those of the request, or of the transaction.

    It refers to objects that exist already, and is made readable when somebody asks (`ottla.control.history`).
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
    """The producer id and epoch of an answer, and with `Kind.FENCED` those of the successor."""
    partition_count: int = 0
    partitions: Collection[TopicPartition] = ()
    """At most `PARTITIONS_KEPT` of them, in any order."""


Ended: TypeAlias = tuple[int, Asker, str, int, int, int, bool, int, int]
"""An EndTxn: when it came in ms since 1970, who has asked, the transactional id, producer id and epoch, the error's code, whether
it was to commit, and the producer id and epoch of the answer. Each transaction has one, and an event that is made of it when it is
read costs a fraction of one that is made amid a request."""


class TransactionListener(Protocol):
    def happened(self, event: Happened) -> None:
        """Learn of an event that is none of the others here."""
        ...

    def ended(self, request: Ended) -> None:
        """Learn of an EndTxn that was answered."""
        ...

    def taken(self, event: Happened) -> None:
        """Learn of an InitProducerId that has succeeded: its client has the id from now on."""
        ...

    def is_held_by(self, transactional_id: str, asker: Asker) -> bool:
        """Whether that client is known to have the id. After a start none is, although producers go on with what they have got."""
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
    """Of those that a client names."""
    return tuple([(cut(topic), partition) for topic, partition in islice(partitions, PARTITIONS_KEPT)])


def of_transaction(
    kind: Kind,
    metadata: TxnMetadata,
    outcome: str,
    now_ms: int,
    partitions: Collection[TopicPartition] | None = None,
    error: int = Code.NONE,
) -> Happened:
    """What has become of a transaction, in all its partitions unless ``partitions`` says in which. They are kept as they are."""
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
