"""Copying a partition's files from one data directory into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from ottla.storage.filesystem import Filesystem, SyncFailed, sync_dir
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
"""How the names of the files end that make up a partition. All others are left behind."""
PIECE_BYTES = 4 << 20

Progress = Callable[[int, int], None]
"""Takes the bytes that are done, and the bytes in all."""


def copy(fs: Filesystem, source: str, target: str, *, is_synced: bool = True) -> Iterator[int]:
    """Copy a file in pieces and bring it to the disk, if ``is_synced``; yields the size of each piece when it is written."""
    reading, writing = fs.open(source), fs.open(target)
    # An empty segment is all that tells where a log goes on whose records retention has taken.
    writing.append(b"")
    for at in range(0, reading.size, PIECE_BYTES):
        piece = reading.read(min(PIECE_BYTES, reading.size - at), at)
        writing.append(piece)
        yield len(piece)
    reading.close()
    if is_synced:
        writing.sync()
    writing.close()


def sync_names(fs: Filesystem, directory: str) -> None:
    """Bring to the disk which files and directories there are in one, and its own name."""
    # Some file systems sync no directories, and some parents may not be read.
    with suppress(SyncFailed):
        sync_dir(fs, directory)
