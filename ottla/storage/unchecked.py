"""Checks the bytes of a segment that an earlier process has written, when they are read for the first time.

A start checks only the end of each settled segment. The bytes before may have been damaged since, and a client does not notice
everything: several clients check no CRC, and a batch whose offsets are too low is dropped by all of them without an error.
"""

from __future__ import annotations

from ottla.storage.filesystem import File
from ottla.storage.walk import SoundBatches

CHECKED_BATCHES = 1_000
"""How many batches are checked in one stretch at most, in about 5 ms."""
CHECKED_PIECE_BYTES = 1 << 16


class Unchecked:
    """The bytes of a segment below ``end``, and which neighbouring batches among them were checked. Reads mostly go forwards."""

    __slots__ = ("_checked_from", "_checked_to", "_next_offset", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._checked_from = self._checked_to = -1
        # The offset behind the checked batches.
        self._next_offset = 0

    def readable_bytes(self, file: File, position: int, size: int, offsets: range, most_checks: int) -> tuple[int, int]:
        """How many of ``size`` bytes can be served, from a batch at ``position`` on: up to the first damaged batch.

        ``offsets`` begin with the batch's and end where the segment does. Checks ``most_checks`` batches at most, and counts only
        what was checked. Also returns how many batches were checked now. Raises `DamagedBatch` where the first one is damaged.
        """
        if position >= self.end:
            return size, 0
        wanted, count = position + size, 0
        if not self._checked_from <= position <= self._checked_to:
            self._checked_from = self._checked_to = position
            self._next_offset = offsets.start
        if wanted > self._checked_to:
            sound = SoundBatches(file, self._next_offset, self._checked_to, piece_bytes=CHECKED_PIECE_BYTES, limit=offsets.stop)
            for count, _ in enumerate(sound, 1):
                if sound.end >= wanted or count >= most_checks:
                    break
            self._checked_to, self._next_offset = sound.end, sound.next_offset
            if sound.end == position:
                raise sound.damaged_batch()
        return min(size, self._checked_to - position), count
