"""The shortest time between two target assignments of a group, so that members that join together share one assignment."""

from __future__ import annotations


def may_assign(assigned_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the last target assignment is old enough for the next one to be computed.

    ``interval_ms`` is ``group.consumer.assignment.interval.ms``, or the same config of streams or share groups. ``assigned_ms`` is
    when the last target was computed, and 0 where there is none. A time in the future counts as old enough: the target was logged
    before a restart, and the wall clock was set back since.
    """
    return not assigned_ms or not assigned_ms <= now_ms < assigned_ms + interval_ms
