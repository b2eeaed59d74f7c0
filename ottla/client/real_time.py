"""The machine's clocks, which advance even if a test has frozen Python's time functions.

freezegun and similar libraries replace `time.monotonic` and `time.time` in every module, so that deadlines never pass. They do not
replace `time.clock_gettime`, which Windows lacks, so deadlines may not pass there.
"""

from __future__ import annotations

import time
from typing import Final

HAS_CLOCKS: Final = hasattr(time, "clock_gettime")


def monotonic_s() -> float:
    """Return the seconds since an arbitrary moment. The value never decreases."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) if HAS_CLOCKS else time.monotonic()


def now_ms() -> int:
    """Return the machine's time in ms since 1970."""
    return (time.clock_gettime_ns(time.CLOCK_REALTIME) if HAS_CLOCKS else time.time_ns()) // 1_000_000
