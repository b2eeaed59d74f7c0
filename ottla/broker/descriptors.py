"""How the process's descriptors are shared out: log files that are kept open, connections, and a reserve for all else."""

from __future__ import annotations

import msgspec

RESERVE = 64
"""For listeners, the event loop, the metrics, files that are open for a moment, and a burst of connections to be refused."""
FEWEST = 8
"""Of files and of connections, however few descriptors there are."""


class Descriptors(msgspec.Struct, frozen=True):
    """Counts. Beyond ``files`` the one opened first is closed; beyond ``connections`` new ones are."""

    limit: int
    files: int
    connections: int


def share_out(limit: int, most_files: int) -> Descriptors:
    """``limit`` is the operating system's (RLIMIT_NOFILE), ``most_files`` what ``ottla.max.open.files`` says."""
    left = limit - min(RESERVE, limit // 4)
    files = max(FEWEST, min(most_files, left // 2))
    return Descriptors(limit=limit, files=files, connections=max(FEWEST, left - files))
