"""The order of a connection's answers, without a socket: each leaves after those of the requests before it."""

from __future__ import annotations

from collections import deque

from ottla.broker.later import Later
from ottla.protocol.primitives import Buffer


class Slot:
    """The place of one answer. ``cost_bytes`` is what its request keeps in memory while it waits."""

    __slots__ = ("cost_bytes", "later", "parts")

    def __init__(self) -> None:
        self.cost_bytes = 0
        self.later: Later | None = None
        self.parts: list[Buffer] | None = None


class Answers:
    """Answers of one connection: ``out`` may leave now, the others wait for one before them.

    ``waiting_bytes`` is what the waiting requests and the answers behind them keep in memory.
    """

    __slots__ = ("_slots", "out", "waiting_bytes")

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()
        self.out: list[Buffer] = []
        self.waiting_bytes = 0

    def __len__(self) -> int:
        """How many answers wait."""
        return len(self._slots)

    def reserve(self) -> Slot:
        """The next place in the order, for an answer that is not there yet."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def wait(self, slot: Slot, later: Later, cost_bytes: int) -> None:
        """The answer comes later; until then its request keeps ``cost_bytes`` in memory."""
        slot.later = later
        slot.cost_bytes += cost_bytes
        self.waiting_bytes += cost_bytes

    def put(self, parts: list[Buffer]) -> None:
        """The next answer, which is there already."""
        if self._slots:
            self.fill(self.reserve(), parts)
        else:
            self.out += parts

    def fill(self, slot: Slot, parts: list[Buffer]) -> None:
        """An answer that was waited for is there: it leaves with all that are ready behind it."""
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
        """Nobody is there any more to take the answers: who works on them is told."""
        slots = list(self._slots)
        self._slots.clear()
        self.out.clear()
        self.waiting_bytes = 0
        for slot in slots:
            if slot.later is not None:
                slot.later.abandon()


def merged(parts: list[Buffer], small_bytes: int = 4096) -> list[Buffer]:
    """Small pieces joined, large ones left as they are: few buffers for one writev."""
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
