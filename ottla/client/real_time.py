"""The machine's clocks, also where a test has frozen or moved the time that programs see.

freezegun and its like replace `time.monotonic`, `time.time` and the functions that are made of them, in every module that has
imported one. A deadline that is measured with them never comes. They do not replace `time.clock_gettime` of the monotonic clock.
"""

from __future__ import annotations

import time


def monotonic_s() -> float:
    """The time in seconds since an arbitrary moment. It never goes back."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """The machine's time in ms since 1970."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000
