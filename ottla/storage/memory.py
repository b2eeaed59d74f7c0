"""Keeps freed memory in the process, for processes that read files in large pieces."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
KEPT_FREE_BYTES = 32 << 20
LARGE_BLOCK_BYTES = 16 << 20


def keep_freed_memory() -> None:
    """Tell glibc to keep up to `KEPT_FREE_BYTES` of freed memory, and to take blocks below `LARGE_BLOCK_BYTES` from it.

    By default glibc returns a freed block of a megabyte to the kernel at once. Every large Fetch needs such a block, and its 256
    page faults took two thirds of the processor time of consuming. Does nothing with other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_FREE_BYTES)
