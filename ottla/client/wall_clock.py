"""The machine's wall clock. Code that measures durations uses `ottla.client.real_time` instead."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The time in ms since 1970, as in timestamps of records and start times of transactions."""
    return time.time_ns() // 1_000_000
