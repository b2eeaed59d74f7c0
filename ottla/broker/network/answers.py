"""Keeps the answers of a connection in the order of its requests, without a socket."""

from __future__ import annotations

from collections import deque

from ottla.broker.loop.pending_response import Later
from ottla.protocol.primitives import Buffer


class Slot:
    """The place of one answer in the order. ``cost_bytes`` is the memory of the request and its answer while they wait."""

    __slots__ = ("cost_bytes", "later", "parts")

    def __init__(self) -> None:
        self.cost_bytes = 0
        self.later: Later | None = None
        self.parts: list[Buffer] | None = None


class Answers:
    """The answers of one connection. ``out`` has the answers that may be sent now; the others wait for an earlier answer.

    ``waiting_bytes`` is the memory of the waiting requests and of the answers that wait behind them.
    """

    __slots__ = ("_slots", "out", "waiting_bytes")

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()
        self.out: list[Buffer] = []
        self.waiting_bytes = 0

    def __len__(self) -> int:
        """The number of answers that wait."""
        return len(self._slots)

    def reserve(self) -> Slot:
        """Take the next place in the order, for an answer that comes later."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def wait(self, slot: Slot, later: Later, cost_bytes: int) -> None:
        """Note that the answer of a place comes later, and that its request needs ``cost_bytes`` of memory until then."""
        slot.later = later
        slot.cost_bytes += cost_bytes
        self.waiting_bytes += cost_bytes

    def put(self, parts: list[Buffer]) -> None:
        """Add the next answer."""
        if self._slots:
            self.fill(self.reserve(), parts)
        else:
            self.out += parts

    def fill(self, slot: Slot, parts: list[Buffer]) -> None:
        """Put an answer into its place. Where no earlier answer is missing, it goes into `out` with all ready answers behind it."""
        slots = self._slots
        slot.parts, slot.later = parts, None
        if slots[0] is not slot:
            size_bytes = sum(map(len, parts))
            slot.cost_bytes += size_bytes
            self.waiting_bytes += size_bytes
            return
        while slots and slots[0].parts is not None:
            ready = slots.popleft()
            self.waiting_bytes -= ready.cost_bytes
            self.out += ready.parts or []

    def abandon(self) -> None:
        """Drop all answers because the connection is closed, and abandon those that come later (`Later.abandon`)."""
        slots = list(self._slots)
        self._slots.clear()
        self.out.clear()
        self.waiting_bytes = 0
        for slot in slots:
            if slot.later is not None:
                slot.later.abandon()


def merged(parts: list[Buffer], small_bytes: int = 4096) -> list[Buffer]:
    """Join neighbouring small pieces and keep large ones as they are, so that one writev has few buffers."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) < small_bytes:
            small.append(part)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(part)
    if small:
        joined.append(b"".join(small))
    return joined
