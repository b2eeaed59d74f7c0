"""Formats durations for people."""

from __future__ import annotations

from typing import Final

SKEW_MS: Final = 2_000
"""Maximum difference, in ms, of two synchronized clocks. A start time that is further in the future means that the clocks
differ."""


def duration_text(ms: int) -> str:
    seconds = max(0, ms) / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def elapsed_ms(since_ms: int, now_ms: int) -> int | None:
    """Return the ms since ``since_ms``, a time of the broker's clock, at least 0; None if that clock is ahead by over `SKEW_MS`."""
    return max(0, now_ms - since_ms) if now_ms >= since_ms - SKEW_MS else None
