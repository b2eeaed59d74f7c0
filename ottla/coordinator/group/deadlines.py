"""Finds the groups of a shard that have an expired deadline. The queue is ordered, so groups without an expired deadline are not
read."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Generic, Protocol, TypeVar

RETRY_MS = 1_000
"""Delay, in ms, before a group is checked again if the log rejected its record."""
MAX_FENCED_MEMBERS = 200
"""Maximum number of late members of a group that one step fences, in about 5 ms. The next tick fences further members."""
STALE_ENTRIES = 64
"""The queue is rebuilt when it has this many entries more than twice the number of groups."""


class TimedGroup(Protocol):
    """A group with deadlines.

    ``wake_ms`` is the time of the next check. ``due_ms`` is the earliest deadline set since ``wake_ms`` was computed, and may be
    before ``wake_ms``.
    """

    group_id: str
    wake_ms: int | None
    due_ms: int | None


G = TypeVar("G", bound=TimedGroup)


class Deadlines(Generic[G]):
    """Groups ordered by ``wake_ms``; groups with equal times keep the order in which they were added.

    An entry whose time is no longer the group's ``wake_ms`` is stale and is skipped. If a heartbeat moves a deadline into the
    future, the entry stays, and the check at its time schedules the next check.
    """

    __slots__ = ("_entries", "_groups", "_order")

    def __init__(self, groups: Mapping[str, G]) -> None:
        self._groups = groups
        self._entries: list[tuple[int, int, str]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._entries)

    def arm(self, group: G) -> None:
        """Ensure that the group is checked no later than its ``due_ms``."""
        due_ms, group.due_ms = group.due_ms, None
        if due_ms is not None and (group.wake_ms is None or due_ms < group.wake_ms):
            self.fix(group, due_ms)

    def fix(self, group: G, wake_ms: int | None) -> None:
        """Check the group only at ``wake_ms``, or never if ``wake_ms`` is None."""
        group.wake_ms, group.due_ms = wake_ms, None
        if wake_ms is None:
            return
        if len(self._entries) > 2 * len(self._groups) + STALE_ENTRIES:
            self._entries = sorted(e for e in self._entries if self._is_current(*e))
        heapq.heappush(self._entries, (wake_ms, next(self._order), group.group_id))

    def fix_after(self, group: G, now_ms: int, deadline_ms: int | None) -> None:
        """Check the group at its next deadline, or at the next tick if the deadline has already passed."""
        self.fix(group, None if deadline_ms is None else max(deadline_ms, now_ms + 1))

    def _is_current(self, wake_ms: int, order: int, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is not None and group.wake_ms == wake_ms

    def due(self, now_ms: int) -> Iterator[G]:
        """Yield the groups to check. Each is first scheduled for `RETRY_MS` later, in case the log rejects its record."""
        while self._entries and self._entries[0][0] <= now_ms:
            entry = heapq.heappop(self._entries)
            if self._is_current(*entry):
                group = self._groups[entry[2]]
                self.fix(group, now_ms + RETRY_MS)
                yield group
