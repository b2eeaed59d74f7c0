"""Divides the process's file descriptors: log files that are kept open, connections, and a reserve for all other files."""

from __future__ import annotations

import msgspec

RESERVE = 64
"""File descriptors for listeners, event loop, metrics, briefly opened files, and connections that are about to be refused."""
FEWEST = 8
"""Minimum number of open log files and of connections, even if fewer descriptors are available."""


class Descriptors(msgspec.Struct, frozen=True):
    """The process's limit of file descriptors, and its division among log files and connections.

    When more than ``files`` log files are open, the file that was opened first is closed. When ``connections`` are open, a new
    connection is closed.
    """

    limit: int
    files: int
    connections: int


def share_out(limit: int, most_files: int) -> Descriptors:
    """Divide ``limit`` descriptors (RLIMIT_NOFILE) among log files, at most ``most_files``, and connections."""
    left = limit - min(RESERVE, limit // 4)
    files = max(FEWEST, min(most_files, left // 2))
    return Descriptors(limit=limit, files=files, connections=max(FEWEST, left - files))
