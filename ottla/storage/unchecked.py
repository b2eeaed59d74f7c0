"""Checks the bytes of a segment that an earlier process wrote, when they are read for the first time.

A starting broker checks only the end of a synced segment. Earlier bytes may have been damaged since the sync, and clients do not
notice all damage: several clients check no CRC, and all of them drop a batch whose offsets are too low without an error.
"""

from __future__ import annotations

from ottla.storage.filesystem import File
from ottla.storage.walk import SoundBatches

CHECKED_BATCHES = 1_000
"""Maximum number of batches that are checked without a pause, which takes about 5 ms."""
CHECKED_PIECE_BYTES = 1 << 16


class Unchecked:
    """The unchecked bytes of a segment: all bytes below ``end``, except one checked range, which most reads extend."""

    __slots__ = ("_checked_from", "_checked_to", "_next_offset", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._checked_from = self._checked_to = -1
        # The offset after the last checked batch.
        self._next_offset = 0

    def readable_bytes(self, file: File, position: int, size: int, offsets: range, most_checks: int) -> tuple[int, int]:
        """Return the number of bytes from the batch at ``position`` that can be served: ``size``, or fewer if a batch is damaged.

        ``offsets`` is the range from the batch's base offset to the end of the segment. Checks at most ``most_checks`` batches, and
        counts only checked bytes. Also returns how many batches this call checked. Raises `DamagedBatch` if the first batch is
        damaged.
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
