"""The iteration orders of Java's HashMap and PriorityQueue.

Kafka's assignor tries equal candidates in these orders. With the same orders ottla assigns exactly as Apache Kafka does. So tests
can compare both, and a group that moves between Kafka and ottla keeps its tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

from ottla.protocol.java_hash import java_hash

T = TypeVar("T")
SMALLEST_TABLE = 16


def hash_order(keys: Collection[str]) -> list[str]:
    """Return the iteration order of a HashMap with these strings: by slots of a table that is at most three quarters full.

    Strings in the same slot keep their insertion order. (Java may change this order if a slot has eight or more strings.)
    """
    table = SMALLEST_TABLE
    while len(keys) > table * 3 // 4:
        table *= 2
    return _by_slot(keys, table)


def computed_order(keys: Iterable[str], capacity: int) -> list[str]:
    """Return the order of a HashMap with an initial capacity after computeIfAbsent was called for each key, maybe repeatedly.

    Unlike ``put``, computeIfAbsent grows a full table before it adds a key, not afterwards, and it puts the last key of a slot
    first.
    """
    table = 1
    while table < capacity:
        table *= 2
    known: dict[str, None] = {}
    for key in keys:
        if len(known) > table * 3 // 4:
            table *= 2
        known[key] = None
    return _by_slot(list(reversed(known)), table)


def _by_slot(keys: Collection[str], table: int) -> list[str]:
    return sorted(keys, key=lambda key: _spread(java_hash(key)) & (table - 1))


def _spread(hashed: int) -> int:
    hashed &= 0xFFFFFFFF
    return hashed ^ hashed >> 16


class JavaQueue(Generic[T]):
    """java.util.PriorityQueue: a binary heap. Python's heapq orders equal elements differently."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[float, T]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, priority: float, element: T) -> None:
        heap = self._heap
        heap.append((priority, element))
        at = len(heap) - 1
        while at > 0:
            parent = (at - 1) // 2
            if priority >= heap[parent][0]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = (priority, element)

    def pop(self) -> T:
        """Remove and return the element with the lowest priority. Raises IndexError if the queue is empty."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last[1]
        first = heap[0][1]
        size, at = len(heap), 0
        while at < size // 2:
            child = 2 * at + 1
            if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                child += 1
            if last[0] <= heap[child][0]:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return first
