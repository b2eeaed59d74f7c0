"""The durable ends of a directory's logs: an unreadable batch below them is damage, not an incomplete write.

Recovery uses the same rule (`storage.recovery`). Apache Kafka has no such rule, and truncates a log at the first batch that it
cannot read. So a directory with such damage must be repaired before it can be converted for Apache Kafka or adopted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.walk import SoundBatches, whole_batches_behind

REMEDY = "restore the file, or discard the damaged part with 'ottla recover'"


@dataclass(slots=True)
class KnownEnds:
    """The ends of logs at the last shutdown. ``was_clean``: the shutdown was clean, so every log ends at its recovery point."""

    was_clean: bool
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)

    def check_older(self, sound: SoundBatches) -> None:
        """Raise `DirectoryError` if an older segment of a log is damaged. ``sound`` must have been read to its end."""
        if not sound.is_whole:
            raise DirectoryError(f"{damage_of(sound)}; {REMEDY}")

    def check_newest(self, where: TopicPartition, sound: SoundBatches) -> int:
        """Return the size in bytes of an incomplete batch at the end of a log. ``sound`` is its newest segment, read to its end.

        Raises `DirectoryError` for damage that a starting broker would not truncate.
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
            raise DirectoryError(f"{damage_of(sound)}, with {behind} whole batches after it; {REMEDY}")
        return sound.file.size - sound.end

    def is_elsewhere(self, where: TopicPartition, sound: SoundBatches) -> bool:
        """Whether a log without damage has another end than at the clean shutdown. ``sound`` is its newest segment, read to its
        end.

        An end above the recovery point is accepted if no offset is missing: an older checkpoint may have been restored. A gap means
        a damaged offset.
        """
        point = self.recovery_points.get(where, 0)
        return self.was_clean and (sound.next_offset < point or (sound.next_offset > point > 0 and not sound.is_gapless))

    def other_end(self, where: TopicPartition, sound: SoundBatches) -> str:
        return f"{sound.file.path}: the log ends at offset {sound.next_offset}; {self.expected(where)}"

    def expected(self, where: TopicPartition) -> str:
        """Describe the expected end of a log and the remedy."""
        point = self.recovery_points.get(where, 0)
        if not point:
            return f"it was whole at the clean stop; {REMEDY}"
        known = "ended at" if self.was_clean else "was on the disk up to"
        return f"it {known} offset {point}, as {RECOVERY_POINTS} says; {REMEDY}"


def read_known_ends(fs: Filesystem, directory: str) -> KnownEnds:
    """Read the ends of logs that the last shutdown has stored. Raises OSError."""
    points = read_offsets(fs, f"{directory}/{RECOVERY_POINTS}")
    return KnownEnds(fs.read_file(f"{directory}/{CLEAN_FILE}") is not None, points)


def damage_of(sound: SoundBatches) -> str:
    """Describe where a segment is damaged. ``sound`` must have been read to its end."""
    because = "" if sound.reason is None else f" ({sound.reason})"
    return f"{sound.file.path}: damaged after offset {sound.next_offset}, byte {sound.end} of {sound.file.size}{because}"
