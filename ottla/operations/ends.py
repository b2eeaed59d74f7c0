"""Where the logs of a directory ended when the disk had them for sure: what is damaged below that is no torn end.

A start decides by the same rule (`storage.recovery`). Apache Kafka has no such rule, and cuts a log at the first batch that it
cannot read. So a directory is not handed over, nor taken over, before somebody has mended it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.names import TopicPartition
from ottla.storage.walk import SoundBatches, whole_batches_behind


@dataclass(slots=True)
class KnownEnds:
    """``was_clean``: the directory was left by a clean stop, after which every log ends at its recovery point."""

    was_clean: bool
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)

    def check_older(self, sound: SoundBatches) -> None:
        """Raises `DirectoryError` for a segment, read through, that is not a log's newest and is not whole."""
        if not sound.is_whole:
            raise DirectoryError(damage_of(sound))

    def check_newest(self, where: TopicPartition, sound: SoundBatches) -> int:
        """How many bytes a crash has torn at the end of a log. Its newest segment was read through.

        Raises `DirectoryError` where it is damage that a start would not cut.
        """
        point = self.recovery_points.get(where, 0)
        if sound.is_whole:
            if sound.next_offset < point or self.is_elsewhere(where, sound):
                raise DirectoryError(self.other_end(where, sound))
            return 0
        if self.was_clean or sound.damaged_offset < point:
            raise DirectoryError(f"{damage_of(sound)}; {self.expected(where)}")
        behind = whole_batches_behind(sound.file, sound.end, sound.damaged_offset).batch_count
        if behind:
            raise DirectoryError(f"{damage_of(sound)}, with {behind} whole batches behind it; restore the file")
        return sound.file.size - sound.end

    def is_elsewhere(self, where: TopicPartition, sound: SoundBatches) -> bool:
        """Whether a log ends where no clean stop has left it. Its newest segment was read through, and is whole.

        It may go on behind its recovery point, where an older checkpoint was put back. An offset that was damaged leaves a gap.
        """
        point = self.recovery_points.get(where, 0)
        return self.was_clean and (sound.next_offset < point or (sound.next_offset > point > 0 and not sound.is_gapless))

    def other_end(self, where: TopicPartition, sound: SoundBatches) -> str:
        return f"{sound.file.path}: the log ends at offset {sound.next_offset}; {self.expected(where)}"

    def expected(self, where: TopicPartition) -> str:
        """What is known of a log's end, and what to do about it, in words."""
        point = self.recovery_points.get(where, 0)
        if not point:
            return "it was whole at the clean stop; restore it"
        known = "ended at" if self.was_clean else "was on the disk up to"
        return f"it {known} offset {point}, as {RECOVERY_POINTS} says; restore it"


def read_known_ends(fs: Filesystem, directory: str) -> KnownEnds:
    """What a stop has written down. Raises OSError."""
    points = read_offsets(fs, f"{directory}/{RECOVERY_POINTS}")
    return KnownEnds(fs.read_file(f"{directory}/{CLEAN_FILE}") is not None, points)


def damage_of(sound: SoundBatches) -> str:
    """Where a segment that was read through is damaged, in words."""
    because = "" if sound.reason is None else f" ({sound.reason})"
    return f"{sound.file.path}: damaged after offset {sound.next_offset}, byte {sound.end} of {sound.file.size}{because}"
