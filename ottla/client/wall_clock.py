"""What time it is for this machine. Whoever measures how long something takes uses `time.monotonic` instead."""

from __future__ import annotations

import time


def now_ms() -> int:
    """In ms since 1970, as records have their timestamps and transactions their beginning."""
    return time.time_ns() // 1_000_000
