"""The shortest time between two target assignments of a group, so that members that join together share one assignment."""

from __future__ import annotations


def may_assign(assigned_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the last target assignment is old enough to compute the next one.

    ``interval_ms`` is ``group.consumer.assignment.interval.ms``, or the same config of streams or share groups. ``assigned_ms`` is
    the time of the last target assignment, 0 if there is none. A time in the future counts as old enough: it was logged before a
    restart, and the wall clock was set back since then.
    """
    return not assigned_ms or not assigned_ms <= now_ms < assigned_ms + interval_ms
