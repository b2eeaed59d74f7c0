"""How soon after a target assignment the next may be computed: members that join at once share one."""

from __future__ import annotations


def may_assign(assigned_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the last target is old enough; ``interval_ms`` is ``group.consumer.assignment.interval.ms`` or that of another kind.

    ``assigned_ms`` is 0 where there is no target yet. One of the future is old enough: it was logged before a restart, and the wall
    clock was set back since.
    """
    return not assigned_ms or not assigned_ms <= now_ms < assigned_ms + interval_ms
