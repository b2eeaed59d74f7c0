"""The segment files of a directory at rest, read through batch by batch in bounded memory, with word of how far the reading is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.protocol.records import BatchHeader
from ottla.storage.filesystem import Filesystem
from ottla.storage.walk import SoundBatches

REPORTED_BYTES = 4 << 20
"""After how many bytes that were read the next word of it is given."""

OnRead = Callable[[int], None]
"""Takes how many bytes were read since it was called last."""


@contextmanager
def sound_batches(fs: Filesystem, path: str, base_offset: int) -> Iterator[SoundBatches]:
    """The batches of a segment's file, which is closed in the end."""
    file = fs.open(path)
    try:
        yield SoundBatches(file, base_offset)
    finally:
        file.close()


def read_through(sound: SoundBatches, on_read: OnRead) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every sound batch. The bytes behind them count as read at the end, so that all that is reported makes the file's size."""
    reported = 0
    for _, header, raw in sound:
        yield header, raw
        if sound.end - reported >= REPORTED_BYTES:
            on_read(sound.end - reported)
            reported = sound.end
    on_read(sound.file.size - reported)
