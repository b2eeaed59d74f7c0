"""Parses durations: ``61s``, ``1h30m``, or a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", re.ASCII)
_TEXT = re.compile(f"(?:{_PART.pattern})+", re.ASCII)
MAX_TEXT = 50


def duration_ms(text: str | timedelta) -> int:
    """Return the duration in ms. Raises ValueError for an invalid text."""
    if isinstance(text, timedelta):
        return int(text / timedelta(milliseconds=1))
    compact = text.replace(" ", "")
    if len(compact) > MAX_TEXT or not _TEXT.fullmatch(compact):
        raise ValueError(f"{text!r} is not a duration; give one such as 61s, 500ms, 1h30m or 7d")
    return round(sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(compact)))
