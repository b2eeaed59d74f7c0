"""Allocates producer ids that were never used before (RPCProducerIdManager).

The controller logs each block of ids before an id of the block is used. So a crash may waste ids, but never repeats an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.coordinator.metadata.cluster import as_allotted
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.errors import Code, KafkaError
from ottla.storage.log import Log


class ProducerIdBlocks(Protocol):
    """Allocates blocks of producer ids. Implemented for a controller in this broker and in another process."""

    def allocate_producer_ids(self, then: Callable[[range | KafkaError], None]) -> None:
        """Call ``then`` with the producer ids of a new block, or with an error, possibly before this method returns."""
        ...


class ProducerIds:
    """Takes new producer ids from the current block, and requests the next block when only few ids are left."""

    __slots__ = ("_ahead", "_block", "_blocks", "_is_awaited", "_next", "_refusal")

    def __init__(self, blocks: ProducerIdBlocks, *, ahead: int = 0) -> None:
        """``ahead``: when this number of ids is left, the next block is requested."""
        self._blocks = blocks
        self._ahead = ahead
        self._block = range(0)
        self._next = range(0)
        self._is_awaited = False
        self._refusal = ""

    def new(self) -> int:
        """Return a new producer id. Raises COORDINATOR_LOAD_IN_PROGRESS, which clients retry, while no id is left."""
        self.ask_ahead()
        if not self._block:
            raise KafkaError(
                Code.COORDINATOR_LOAD_IN_PROGRESS, self._refusal or "the broker is waiting for the next block of producer ids"
            )
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    def ask_ahead(self) -> None:
        """Request the next block of producer ids if few ids are left."""
        self._begin_next()
        if len(self._block) <= self._ahead and not self._next and not self._is_awaited:
            self._is_awaited = True
            self._blocks.allocate_producer_ids(self._take)
            self._begin_next()

    def _begin_next(self) -> None:
        if not self._block:
            self._block, self._next = self._next, range(0)

    def _take(self, answer: range | KafkaError) -> None:
        self._is_awaited = False
        if isinstance(answer, KafkaError):
            self._refusal = answer.message or ""
        else:
            self._next, self._refusal = answer, ""


def highest_known_id(logs: Iterable[Log], shards: Iterable[TransactionShard]) -> int:
    """The highest producer id in logs and transactions; -1 if there is none. Ids that no broker can have allocated are ignored."""
    highest = -1
    for log in logs:
        highest = max((highest, *map(as_allotted, log.producers.entries)))
    for shard in shards:
        for metadata in shard.ids.values():
            ids = (metadata.producer_id, metadata.previous_producer_id, metadata.next_producer_id)
            highest = max(highest, *map(as_allotted, ids))
    return highest
