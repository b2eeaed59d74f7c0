"""The newest events of each transactional id since the start of the broker's process.

Each id has its own list (ring) of events with a maximum length, so that a busy id does not displace the events of others. Above a
limit for all rings, in bytes, events of the longest idle id are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from itertools import islice
from operator import attrgetter
from sys import getsizeof
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.broker.hooks.transaction_history import Asker, Ended, Happened, Kind, TransactionListener, event_of_end
from ottla.protocol.errors import Code

EVENTS_OF_ONE_ID = 500
UNSORTED_EVENTS = 12
"""Maximum number of queued events, which are not yet stored by id. This number keeps the queue below `MAX_WAITING_BYTES`."""
MAX_WAITING_BYTES = 2 << 20
"""Upper bound on the size of the queued events, in bytes. A transactional id may have 32,767 characters, and Python may store four
bytes for each character."""
MAX_BYTES = 6 << 20
"""Upper bound, in estimated bytes, on the stored events of all ids."""
EVENT_BYTES, PARTITION_BYTES, ID_BYTES = 600, 400, 1_500
"""Estimated sizes in bytes: of an event without its partitions, of a partition in an event, and of the
entry of a transactional id without the text of the id."""
COORDINATORS_APIS = frozenset(("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"))
"""The requests that the transactional id's coordinator handles. TxnOffsetCommit is handled by the group's coordinator."""
_PARTITIONS = attrgetter("partitions")


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The current owner of a transactional id, whose epoch fences earlier producers."""

    client_id: str
    client_host: str
    since_ms: int


class KnownId(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    newest_ms: int
    """The time of the id's newest event, in ms since 1970."""


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    holder: Holder | None
    """None if the current owner is unknown."""
    forgotten: int
    """The number of older events that were dropped."""
    events: list[dict[str, Any]]


class _Ring:
    __slots__ = ("event_bytes", "events", "forgotten", "holder", "size_bytes")

    def __init__(self, transactional_id: str) -> None:
        text_bytes = getsizeof(transactional_id)
        self.events: list[Happened] = []
        self.event_bytes = EVENT_BYTES + text_bytes
        self.holder: Happened | None = None
        """The request that shows the id's current owner."""
        self.forgotten = 0
        self.size_bytes = ID_BYTES + text_bytes

    def add(self, newer: list[Happened]) -> None:
        if self.holder is None:
            # Without a stored InitProducerId, another request that the coordinator accepted shows the current owner.
            self.holder = next(filter(_shows_holder, newer), None)
        self.size_bytes += self._bytes_of(newer)
        self.events += newer
        if len(self.events) > EVENTS_OF_ONE_ID:
            self.forget_oldest(len(self.events) - EVENTS_OF_ONE_ID)

    def forget_oldest(self, count: int) -> None:
        self.forgotten += count
        self.size_bytes -= self._bytes_of(self.events[:count])
        del self.events[:count]

    def _bytes_of(self, events: list[Happened]) -> int:
        return self.event_bytes * len(events) + PARTITION_BYTES * sum(map(len, map(_PARTITIONS, events)))


class EventHistory:
    """A `broker.hooks.transaction_history.TransactionListener`, owned by the broker's event loop.

    New events are queued in one list, in which one tuple (`Ended`) represents a whole transaction. When the list has
    `UNSORTED_EVENTS` events, or when the history is read, the events are converted and moved to the rings of their ids.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._unsorted: list[Happened | Ended] = []
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self._sorted_bytes = 0

    def happened(self, event: Happened) -> None:
        self.keep(event)

    def keep(self, event: Happened | Ended) -> None:
        unsorted = self._unsorted
        unsorted.append(event)
        if len(unsorted) >= UNSORTED_EVENTS:
            self._sort()

    # `ended` is an alias of `keep`, because a call in between would cost time in each transaction.
    ended = keep

    def taken(self, event: Happened) -> None:
        self.happened(event)
        self._sort()
        if (ring := self._rings.get(event.transactional_id)) is not None:
            ring.holder = event

    def is_held_by(self, transactional_id: str, asker: Asker) -> bool:
        ring = self._rings.get(transactional_id)
        if ring is None or ring.holder is None:
            # Store queued events by id, because a queued event may show the current owner.
            self._sort()
            ring = self._rings.get(transactional_id)
        if ring is None or ring.holder is None or (holder := ring.holder.asker) is None:
            return False
        return holder.client_id == asker.client_id and holder.client_host == asker.client_host

    @property
    def size_bytes(self) -> int:
        """The estimated size of all events, in bytes."""
        self._sort()
        return self._sorted_bytes

    def _sort(self) -> None:
        unsorted, self._unsorted = self._unsorted, []
        events = [event_of_end(event) if isinstance(event, tuple) else event for event in unsorted]
        by_id: defaultdict[str, list[Happened]] = defaultdict(list)
        for event in reversed(events):
            by_id[event.transactional_id].append(event)
        # Ids are ordered by their last event, oldest first, so they are added in this order.
        for transactional_id, newest_first in reversed(by_id.items()):
            ring = self._rings.pop(transactional_id, None)
            if ring is None:
                ring = _Ring(transactional_id)
            else:
                self._sorted_bytes -= ring.size_bytes
            ring.add(newest_first[::-1])
            self._rings[transactional_id] = ring
            self._sorted_bytes += ring.size_bytes
            if self._sorted_bytes > self._max_bytes:
                self._make_room()

    def _make_room(self) -> None:
        while self._sorted_bytes > self._max_bytes:
            quietest, ring = next(iter(self._rings.items()))
            self._sorted_bytes -= ring.size_bytes
            if ring.events:
                ring.forget_oldest(1)
                self._sorted_bytes += ring.size_bytes
            else:
                del self._rings[quietest]

    def clear(self) -> None:
        self._unsorted.clear()
        self._rings.clear()
        self._sorted_bytes = 0

    def newest(self, count: int) -> list[KnownId]:
        """Return the ``count`` ids with the newest events, newest first."""
        self._sort()
        newest = islice(reversed(self._rings.items()), count)
        return [KnownId(transactional_id=name, newest_ms=ring.events[-1].time_ms) for name, ring in newest if ring.events]

    def holder(self, transactional_id: str) -> Holder | None:
        """Return the current owner of an id, or None for an unknown owner."""
        self._sort()
        ring = self._rings.get(transactional_id)
        return None if ring is None else _holder(ring.holder)

    def view(self, transactional_id: str) -> HistoryView | None:
        """Return the events of an id, or None if the id has no events."""
        self._sort()
        ring = self._rings.get(transactional_id)
        if ring is None:
            return None
        events = [_shown(event) for event in ring.events]
        return HistoryView(transactional_id=transactional_id, holder=_holder(ring.holder), forgotten=ring.forgotten, events=events)


def _shows_holder(event: Happened) -> bool:
    """Whether the coordinator has accepted the request's producer epoch. If so, the request's client is the current owner."""
    if event.kind is not Kind.REQUEST or event.error != Code.NONE:
        return False
    return event.asker is not None and event.asker.api in COORDINATORS_APIS


def _holder(request: Happened | None) -> Holder | None:
    if request is None or request.asker is None:
        return None
    return Holder(client_id=request.asker.client_id, client_host=request.asker.client_host, since_ms=request.time_ms)


def _shown(event: Happened) -> dict[str, Any]:
    """Convert an event to JSON, with Kafka's names of error codes and without unset fields."""
    shown: dict[str, Any] = {"time_ms": event.time_ms, "kind": event.kind.value}
    if event.asker is not None:
        shown |= _shown_asker(event.asker)
    if event.producer_id >= 0:
        shown |= {"producer_id": event.producer_id, "producer_epoch": event.producer_epoch}
    if event.new_producer_id >= 0:
        shown |= {"new_producer_id": event.new_producer_id, "new_producer_epoch": event.new_producer_epoch}
    if event.error != Code.NONE:
        shown["error"] = Code(event.error).name
    for name in ("group_id", "outcome"):
        if getattr(event, name):
            shown[name] = getattr(event, name)
    if event.partition_count:
        shown["partitions"] = [{"topic": topic, "partition": index} for topic, index in sorted(event.partitions)]
        shown["partition_count"] = event.partition_count
    return shown


def _shown_asker(asker: Asker) -> dict[str, Any]:
    shown: dict[str, Any] = {"client_id": asker.client_id, "client_host": asker.client_host}
    return {"api": asker.api, "version": asker.version} | shown if asker.api else shown


if TYPE_CHECKING:
    # mypy checks here that `EventHistory` implements `TransactionListener`.
    _PORT: type[TransactionListener] = EventHistory
