"""Reads the segment files of a directory batch by batch, in bounded memory, and reports the progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.protocol.records import BatchHeader
from ottla.storage.filesystem import Filesystem
from ottla.storage.walk import SoundBatches

REPORTED_BYTES = 4 << 20
"""Number of bytes after which progress is reported."""

OnRead = Callable[[int], None]
"""Called with the number of bytes that were read since the last call."""


@contextmanager
def sound_batches(fs: Filesystem, path: str, base_offset: int) -> Iterator[SoundBatches]:
    """Yield the batches of a segment. The file is closed at the end of the context."""
    file = fs.open(path)
    try:
        yield SoundBatches(file, base_offset)
    finally:
        file.close()


def read_through(sound: SoundBatches, on_read: OnRead) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the valid batches of a segment.

    The numbers passed to ``on_read`` add up to the size of the file: the last call also reports the bytes after the valid batches.
    """
    reported = 0
    for _, header, raw in sound:
        yield header, raw
        if sound.end - reported >= REPORTED_BYTES:
            on_read(sound.end - reported)
            reported = sound.end
    on_read(sound.file.size - reported)
