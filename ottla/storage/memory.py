"""The process's memory, for those that read files in large pieces."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
KEPT_FREE_BYTES = 32 << 20
LARGE_BLOCK_BYTES = 16 << 20


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed, up to a bound.

    By default a block of a megabyte, as every larger Fetch needs one, goes back to the kernel at once and costs 256
    page faults when the next is taken: two thirds of a consume's processor time. Elsewhere this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_FREE_BYTES)
