"""The newest events of each transactional id since the broker's process began.

Each id has a ring of its own, so that a busy id does not push out the events of others. All rings together have a limit in bytes.
Beyond it the ids whose last event is the oldest are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from sys import getsizeof
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.broker.transaction_history import Asker, Happened, Kind, TransactionListener
from ottla.protocol.errors import Code

EVENTS_OF_ONE_ID = 500
MAX_BYTES = 8 << 20
"""What all events together may take, by an estimate."""
EVENT_BYTES, PARTITION_BYTES, ID_BYTES = 600, 400, 1_500
"""The estimates of one event, of each partition that it names, and of one id. The text of the id counts beside them."""


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
    __slots__ = ("event_bytes", "events", "forgotten", "holder", "size_bytes")

    def __init__(self, transactional_id: str) -> None:
        text_bytes = getsizeof(transactional_id)
        self.events: deque[Happened] = deque()
        self.event_bytes = EVENT_BYTES + text_bytes
        """The estimate of each of the events, without their partitions."""
        self.holder: Happened | None = None
        """The request of the client that has the id now."""
        self.forgotten = 0
        self.size_bytes = ID_BYTES + text_bytes

    def forget_oldest(self) -> int:
        """How many bytes that was."""
        self.forgotten += 1
        return self.event_bytes + PARTITION_BYTES * len(self.events.popleft().partitions)


class EventHistory:
    """A `broker.transaction_history.TransactionListener`. It belongs to the broker's event loop.

    Each transaction passes here several times, so an event is kept as it comes, and made readable by `view`.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self.size_bytes = 0

    def happened(self, event: Happened) -> None:
        transactional_id = event.transactional_id
        ring = self._rings.get(transactional_id)
        if ring is None:
            ring = self._rings[transactional_id] = _Ring(transactional_id)
            self.size_bytes += ring.size_bytes
        else:
            self._rings.move_to_end(transactional_id)
        asker = event.asker
        has_succeeded = event.kind is Kind.REQUEST and event.error == Code.NONE
        if has_succeeded and (ring.holder is None or (asker is not None and asker.api == "InitProducerId")):
            # The client has the id now: it has got it, or was here first when the broker's process began.
            ring.holder = event
        ring.events.append(event)
        added_bytes = ring.event_bytes + PARTITION_BYTES * len(event.partitions)
        if len(ring.events) > EVENTS_OF_ONE_ID:
            added_bytes -= ring.forget_oldest()
        ring.size_bytes += added_bytes
        self.size_bytes += added_bytes
        if self.size_bytes > self._max_bytes:
            self._make_room()

    def _make_room(self) -> None:
        while self.size_bytes > self._max_bytes:
            quietest, ring = next(iter(self._rings.items()))
            if ring.events:
                freed_bytes = ring.forget_oldest()
                ring.size_bytes -= freed_bytes
            else:
                del self._rings[quietest]
                freed_bytes = ring.size_bytes
            self.size_bytes -= freed_bytes

    def clear(self) -> None:
        self._rings.clear()
        self.size_bytes = 0

    def view(self, transactional_id: str) -> HistoryView | None:
        """The events of an id; None for an id without any."""
        ring = self._rings.get(transactional_id)
        if ring is None:
            return None
        events = [_shown(event) for event in ring.events]
        return HistoryView(transactional_id=transactional_id, holder=_holder(ring.holder), forgotten=ring.forgotten, events=events)


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
