"""Schedules restarts of nodes that ended unexpectedly, with a delay that doubles while a node keeps ending."""

from __future__ import annotations

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
STEADY_S = 120.0
"""Run time, in seconds, after which a node's next restart has the delay `FIRST_DELAY_S` again."""


class Restarts:
    """Scheduled restarts by node id. Times are seconds of a monotonic clock, which the caller passes."""

    def __init__(self) -> None:
        self._due_s: dict[int, float] = {}
        self._delays_s: dict[int, float] = {}
        self._started_s: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._due_s)

    def is_scheduled(self, node_id: int) -> bool:
        return node_id in self._due_s

    def started(self, node_id: int, now_s: float) -> None:
        self._started_s[node_id] = now_s
        self._due_s.pop(node_id, None)

    def ended(self, node_id: int, now_s: float) -> float:
        """Schedule a restart of a node that has ended, and return its delay in seconds."""
        delay_s = min(2 * self._delays_s.get(node_id, 0.0), LONGEST_DELAY_S) or FIRST_DELAY_S
        if now_s - self._started_s.get(node_id, now_s) >= STEADY_S:
            delay_s = FIRST_DELAY_S
        self._delays_s[node_id] = delay_s
        self._due_s[node_id] = now_s + delay_s
        return delay_s

    def due(self, now_s: float) -> list[int]:
        return [node_id for node_id, at_s in self._due_s.items() if at_s <= now_s]
