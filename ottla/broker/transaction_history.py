"""The port by which somebody may learn what happens to each transactional id: requests, refusals, decisions, markers.

The broker keeps no such history itself. Kafka's APIs have no place for it, and its logs hold neither who has asked nor what was
refused. Without a listener (`ottla.control.history`) a transaction costs a few comparisons with None, and a batch that is
produced or fetched costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from itertools import islice
from typing import Protocol

import msgspec

from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.protocol.errors import Code
from ottla.protocol.topic_partition import TopicPartition

PARTITIONS_KEPT = 20
"""How many partitions of one event are named. All of them are counted."""


class Kind(StrEnum):
    REQUEST = "request"
    """A client's request was answered."""
    FENCED = "fenced"
    """A producer has taken the id over from another one, which is fenced by it."""
    DECIDED = "decided"
    """The outcome is in the coordinator's log. ``outcome`` says who has brought it about: commit, abort, fenced or timeout."""
    MARKERS = "markers"
    """Markers were written, or refused with ``error``."""
    COMPLETED = "completed"
    """The Complete record is in the coordinator's log."""


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a transactional id. ``producer_id`` and ``producer_epoch`` are those of the request, or of the transaction."""

    time_ms: int
    kind: Kind
    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    error: Code = Code.NONE
    api: str = ""
    version: int = -1
    client_id: str = ""
    client_host: str = ""
    group_id: str = ""
    outcome: str = ""
    new_producer_id: int = -1
    new_producer_epoch: int = -1
    """The producer id and epoch of an answer, and with `Kind.FENCED` those of the successor."""
    partition_count: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """The first `PARTITIONS_KEPT` of them."""


class TransactionListener(Protocol):
    def happened(self, event: Happened) -> None: ...


def first_partitions(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(islice(partitions, PARTITIONS_KEPT))


def of_transaction(
    kind: Kind,
    metadata: TxnMetadata,
    outcome: str,
    now_ms: int,
    partitions: Collection[TopicPartition] | None = None,
    error: Code = Code.NONE,
) -> Happened:
    """What has become of a transaction, in all its partitions unless ``partitions`` says in which."""
    where = metadata.partitions if partitions is None else partitions
    return Happened(
        time_ms=now_ms,
        kind=kind,
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        outcome=outcome,
        error=error,
        partitions=first_partitions(where),
        partition_count=len(where),
    )
