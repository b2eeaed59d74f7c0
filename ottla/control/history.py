"""The newest events of each transactional id since the broker's process began.

Each id has a ring of its own, so that a busy id does not push out the events of others. All rings together have a limit in bytes.
Beyond it the ids whose last event is the oldest are dropped first.
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
"""How many events wait until they are sorted into the rings of their ids. They are so few because of `MAX_WAITING_BYTES`."""
MAX_WAITING_BYTES = 2 << 20
"""What those may take. An id may have 32,767 bytes. Python takes four for each character of a text in which one needs four."""
MAX_BYTES = 6 << 20
"""What the events in the rings may take beside them, by an estimate."""
EVENT_BYTES, PARTITION_BYTES, ID_BYTES = 600, 400, 1_500
"""The estimates of one event, of each partition that it names, and of one id. The text of the id counts beside them."""
COORDINATORS_APIS = frozenset(("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"))
"""The requests that the coordinator of the transactional id answers. TxnOffsetCommit is answered by that of the group."""
_PARTITIONS = attrgetter("partitions")


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The client that has got a transactional id, and with it the epoch that fences earlier producers."""

    client_id: str
    client_host: str
    since_ms: int


class KnownId(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    newest_ms: int
    """When the newest of its events was."""


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    holder: Holder | None
    """None where no request is kept that shows who has the id."""
    forgotten: int
    """How many older events were dropped."""
    events: list[dict[str, Any]]


class _Ring:
    __slots__ = ("event_bytes", "events", "forgotten", "holder", "size_bytes")

    def __init__(self, transactional_id: str) -> None:
        text_bytes = getsizeof(transactional_id)
        self.events: list[Happened] = []
        self.event_bytes = EVENT_BYTES + text_bytes
        """The estimate of each of the events, without their partitions."""
        self.holder: Happened | None = None
        """The request of the client that has the id now."""
        self.forgotten = 0
        self.size_bytes = ID_BYTES + text_bytes

    def add(self, newer: list[Happened]) -> None:
        if self.holder is None:
            # No InitProducerId is kept, so the first client whose request has succeeded is taken for the one that has the id.
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
    """A `broker.hooks.transaction_history.TransactionListener`. It belongs to the broker's event loop.

    Each transaction passes here with its EndTxn, which is kept as the tuple that came. The events of all ids wait in one list until
    there are `UNSORTED_EVENTS` of them or somebody asks. Then they are made of what has come, and sorted into the rings of their
    ids. `view` makes them readable.
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

    # Another name and no call, because each transaction comes here.
    ended = keep

    def taken(self, event: Happened) -> None:
        self.happened(event)
        self._sort()
        if (ring := self._rings.get(event.transactional_id)) is not None:
            ring.holder = event

    def is_held_by(self, transactional_id: str, asker: Asker) -> bool:
        ring = self._rings.get(transactional_id)
        if ring is None or ring.holder is None:
            # One of the events that wait may tell it.
            self._sort()
            ring = self._rings.get(transactional_id)
        if ring is None or ring.holder is None or (holder := ring.holder.asker) is None:
            return False
        return holder.client_id == asker.client_id and holder.client_host == asker.client_host

    @property
    def size_bytes(self) -> int:
        """What the events take, by the estimates."""
        self._sort()
        return self._sorted_bytes

    def _sort(self) -> None:
        unsorted, self._unsorted = self._unsorted, []
        events = [event_of_end(event) if isinstance(event, tuple) else event for event in unsorted]
        by_id: defaultdict[str, list[Happened]] = defaultdict(list)
        for event in reversed(events):
            by_id[event.transactional_id].append(event)
        # The id that was quiet for the longest time comes first, as among the rings.
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
        """The ids with the newest events, those with the very newest first."""
        self._sort()
        newest = islice(reversed(self._rings.items()), count)
        return [KnownId(transactional_id=name, newest_ms=ring.events[-1].time_ms) for name, ring in newest if ring.events]

    def holder(self, transactional_id: str) -> Holder | None:
        """Who has an id, without its events; None where no client has asked for it."""
        self._sort()
        ring = self._rings.get(transactional_id)
        return None if ring is None else _holder(ring.holder)

    def view(self, transactional_id: str) -> HistoryView | None:
        """The events of an id; None for an id without any."""
        self._sort()
        ring = self._rings.get(transactional_id)
        if ring is None:
            return None
        events = [_shown(event) for event in ring.events]
        return HistoryView(transactional_id=transactional_id, holder=_holder(ring.holder), forgotten=ring.forgotten, events=events)


def _shows_holder(event: Happened) -> bool:
    """Whether the id's coordinator has taken the producer's epoch for the newest. Of the others who ask, one may be fenced."""
    if event.kind is not Kind.REQUEST or event.error != Code.NONE:
        return False
    return event.asker is not None and event.asker.api in COORDINATORS_APIS


def _holder(request: Happened | None) -> Holder | None:
    if request is None or request.asker is None:
        return None
    return Holder(client_id=request.asker.client_id, client_host=request.asker.client_host, since_ms=request.time_ms)


def _shown(event: Happened) -> dict[str, Any]:
    """The event as JSON, with Kafka's names of errors and without the fields that the event does not have."""
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
    # Lets mypy check the class against the broker's port here, where both are known.
    _PORT: type[TransactionListener] = EventHistory
