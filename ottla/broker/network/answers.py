"""Keeps the responses of a connection in the order of its requests, without a socket."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ottla.protocol.primitives import Buffer


class Parked(Protocol):
    """A parked request that can be cancelled (`broker.loop.stepping.Work`)."""

    def cancel(self) -> None:
        """Drop the request, because its client has disconnected."""
        ...


class Slot:
    """The position of one response in the order of the requests. ``cost_bytes`` is the memory of the request and its response while
    they wait."""

    __slots__ = ("cost_bytes", "parked", "parts")

    def __init__(self) -> None:
        self.cost_bytes = 0
        self.parked: Parked | None = None
        self.parts: list[Buffer] | None = None


class Answers:
    """The responses of one connection. ``out`` has the responses that may be sent now; other responses wait until all earlier ones
    are ready.

    ``waiting_bytes`` is the memory of the waiting requests and of the ready responses that wait for them.
    """

    __slots__ = ("_slots", "out", "waiting_bytes")

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()
        self.out: list[Buffer] = []
        self.waiting_bytes = 0

    def __len__(self) -> int:
        """The number of responses that are not ready, or wait for an earlier response."""
        return len(self._slots)

    def reserve(self) -> Slot:
        """Return the slot after all earlier responses, for a response that is not ready yet."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def wait(self, slot: Slot, parked: Parked, cost_bytes: int) -> None:
        """Record that the request of ``slot`` is parked, and needs ``cost_bytes`` of memory until its response is ready."""
        slot.parked = parked
        slot.cost_bytes += cost_bytes
        self.waiting_bytes += cost_bytes

    def put(self, parts: list[Buffer]) -> None:
        """Add a ready response after all earlier responses."""
        if self._slots:
            self.fill(self.reserve(), parts)
        else:
            self.out += parts

    def fill(self, slot: Slot, parts: list[Buffer]) -> None:
        """Put a response into its slot. If all earlier responses are ready, move it and all ready responses after it to `out`."""
        slots = self._slots
        slot.parts, slot.parked = parts, None
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
        """Drop all responses and cancel the parked requests, because the connection is closed."""
        slots = list(self._slots)
        self._slots.clear()
        self.out.clear()
        self.waiting_bytes = 0
        for slot in slots:
            if slot.parked is not None:
                slot.parked.cancel()


def merged(parts: list[Buffer], small_bytes: int = 4096) -> list[Buffer]:
    """Join adjacent small buffers, but not large buffers, so that one writev has few buffers."""
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
