"""Copies a partition's files from one data directory to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.storage.filesystem import Filesystem
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX

COPIED = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
"""Suffixes of a partition's files. Other files are not copied."""
PIECE_BYTES = 4 << 20

Progress = Callable[[int, int], None]
"""Called with the number of bytes copied so far and in total."""


def copy(fs: Filesystem, source: str, target: str, *, is_synced: bool = True) -> Iterator[bytes]:
    """Copy a file in pieces, and sync it if ``is_synced``. Yields each piece after it was written."""
    reading, writing = fs.open(source), fs.open(target)
    # An empty segment must be created as well: its name alone keeps the log's offset after retention has removed all records.
    writing.append(b"")
    for at in range(0, reading.size, PIECE_BYTES):
        piece = reading.read(min(PIECE_BYTES, reading.size - at), at)
        writing.append(piece)
        yield piece
    reading.close()
    if is_synced:
        writing.sync()
    writing.close()
