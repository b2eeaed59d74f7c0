"""Durations for people."""

from __future__ import annotations

from typing import Final

SKEW_MS: Final = 2_000
"""Maximum difference, in ms, of two synchronized clocks. Times of clocks with a larger difference are not compared."""


def duration_text(ms: int) -> str:
    seconds = max(0, ms) / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def elapsed_ms(since_ms: int, now_ms: int) -> int | None:
    """Return the time in ms since a broker's ``since_ms``, never below 0; None if that is in the future because clocks differ."""
    return max(0, now_ms - since_ms) if now_ms >= since_ms - SKEW_MS else None
