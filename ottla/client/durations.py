"""Durations for people."""

from __future__ import annotations

from typing import Final

SKEW_MS: Final = 2_000
"""How far two clocks that are kept right may be apart, in ms. Clocks that are further apart tell nothing of each other."""


def duration_text(ms: int) -> str:
    seconds = max(0, ms) / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def elapsed_ms(since_ms: int, now_ms: int) -> int | None:
    """The time since a broker's ``since_ms``, never below 0; None where that lies ahead, because ``now_ms`` is of another clock."""
    return max(0, now_ms - since_ms) if now_ms >= since_ms - SKEW_MS else None
