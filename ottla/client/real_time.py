"""The machine's clocks, which advance even if a test has frozen Python's time functions.

freezegun and similar libraries replace `time.monotonic` and `time.time` in every module, so that deadlines never pass. They do not
replace `time.clock_gettime`.
"""

from __future__ import annotations

import time


def monotonic_s() -> float:
    """Return the seconds since an arbitrary moment. The value never decreases."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """Return the machine's time in ms since 1970."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000
