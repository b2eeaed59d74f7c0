"""The newest events of each transactional id since the broker's process began.

Each id has a ring of its own, so that a busy id does not push out the events of others. All rings together have a limit in bytes.
Beyond it the ids whose last event is the oldest are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from sys import getsizeof
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.broker.transaction_history import Happened, Kind, TransactionListener
from ottla.protocol.errors import Code

EVENTS_OF_ONE_ID = 500
MAX_BYTES = 8 << 20
"""The largest estimated size of all events together, in bytes."""
EVENT_BYTES = 400
ID_BYTES = 1_500
"""The estimated size of one event, and of one id, in bytes, without their texts."""
CLIENT_ID_CHARACTERS = 200
"""How many characters of a client id are kept. Client ids may have 32,767."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The client that has got a transactional id, and with it the epoch that fences earlier producers."""

    client_id: str
    client_host: str
    since_ms: int


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str
    holder: Holder | None
    """None where no client has asked for the id since the broker's process began."""
    forgotten: int
    """How many older events were dropped."""
    events: list[dict[str, Any]]


class _Ring:
    __slots__ = ("events", "forgotten", "holder", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.events: deque[Happened] = deque()
        self.holder: Holder | None = None
        self.forgotten = 0
        self.size_bytes = size_bytes


class EventHistory:
    """Implements `broker.transaction_history.TransactionListener`. The broker's event loop owns it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self.size_bytes = 0

    def happened(self, event: Happened) -> None:
        if len(event.client_id) > CLIENT_ID_CHARACTERS:
            event = msgspec.structs.replace(event, client_id=event.client_id[:CLIENT_ID_CHARACTERS] + "...")
        ring = self._rings.get(event.transactional_id)
        if ring is None:
            ring = self._rings[event.transactional_id] = _Ring(ID_BYTES + getsizeof(event.transactional_id))
            self.size_bytes += ring.size_bytes
        else:
            self._rings.move_to_end(event.transactional_id)
        if _is_from_holder(event, ring):
            ring.holder = Holder(client_id=event.client_id, client_host=event.client_host, since_ms=event.time_ms)
        ring.events.append(event)
        self._add(ring, _size_bytes(event))
        if len(ring.events) > EVENTS_OF_ONE_ID:
            self._forget_oldest(ring)
        while self.size_bytes > self._max_bytes:
            quietest, ring = next(iter(self._rings.items()))
            if ring.events:
                self._forget_oldest(ring)
            else:
                del self._rings[quietest]
                self.size_bytes -= ring.size_bytes

    def _add(self, ring: _Ring, size_bytes: int) -> None:
        ring.size_bytes += size_bytes
        self.size_bytes += size_bytes

    def _forget_oldest(self, ring: _Ring) -> None:
        self._add(ring, -_size_bytes(ring.events.popleft()))
        ring.forgotten += 1

    def clear(self) -> None:
        self._rings.clear()
        self.size_bytes = 0

    def view(self, transactional_id: str) -> HistoryView | None:
        """The events of an id; None for an id without any."""
        ring = self._rings.get(transactional_id)
        if ring is None:
            return None
        events = [_shown(event) for event in ring.events]
        return HistoryView(transactional_id=transactional_id, holder=ring.holder, forgotten=ring.forgotten, events=events)


def _is_from_holder(event: Happened, ring: _Ring) -> bool:
    """Whether the event is of the client that has the id now: the client has got the id, or had it when the broker's process
    began."""
    if event.kind is not Kind.REQUEST or event.error is not Code.NONE:
        return False
    return event.api == "InitProducerId" or ring.holder is None


def _size_bytes(event: Happened) -> int:
    size_bytes = EVENT_BYTES + getsizeof(event.client_id) + getsizeof(event.group_id)
    return size_bytes + sum(100 + getsizeof(topic) for topic, _ in event.partitions)


def _shown(event: Happened) -> dict[str, Any]:
    """The event as JSON, with Kafka's names of errors and without the fields that the event does not have."""
    shown: dict[str, Any] = {"time_ms": event.time_ms, "kind": event.kind.value}
    if event.api:
        shown |= {"api": event.api, "version": event.version}
    if event.client_host:
        shown |= {"client_id": event.client_id, "client_host": event.client_host}
    if event.producer_id >= 0:
        shown |= {"producer_id": event.producer_id, "producer_epoch": event.producer_epoch}
    if event.new_producer_id >= 0:
        shown |= {"new_producer_id": event.new_producer_id, "new_producer_epoch": event.new_producer_epoch}
    if event.error is not Code.NONE:
        shown["error"] = event.error.name
    for name in ("group_id", "outcome"):
        if getattr(event, name):
            shown[name] = getattr(event, name)
    if event.partition_count:
        shown["partitions"] = [{"topic": topic, "partition": index} for topic, index in event.partitions]
        shown["partition_count"] = event.partition_count
    return shown


if TYPE_CHECKING:
    # Lets mypy check the class against the broker's port here, where both are known.
    _PORT: type[TransactionListener] = EventHistory
