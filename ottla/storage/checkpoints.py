"""Small text files beside the logs: offset checkpoints, the leader epoch checkpoint, partition.metadata."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

from ottla.protocol.primitives import NO_UUID
from ottla.storage.filesystem import Damaged, Filesystem

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
NO_EPOCH = -1
MAX_OFFSET = 0x7FFFFFFFFFFFFFFF


def _lines(raw: bytes | None) -> list[str] | None:
    """The entry lines of a checkpoint (version, count, entries), None where it is missing or damaged."""
    if raw is None:
        return None
    lines = raw.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdigit() or len(lines) - 2 != int(lines[1]):
        return None
    return lines[2:]


def read_offsets(fs: Filesystem, path: str) -> dict[tuple[str, int], int]:
    """``(topic, partition) -> offset`` of an offset checkpoint; empty where it is missing or damaged.

    So what it returns must not be written back with changes: that would make a sound file that has lost all it said before.
    Whoever writes asks `parse_offsets`.
    """
    return parse_offsets(fs.read_file(path)) or {}


def parse_offsets(raw: bytes | None) -> dict[tuple[str, int], int] | None:
    """What an offset checkpoint says; None where it is missing or damaged."""
    lines = _lines(raw)
    if lines is None:
        return None
    try:
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in (line.split(" ") for line in lines)}
    except ValueError:
        return None
    return offsets if len(offsets) == len(lines) and all(0 <= offset <= MAX_OFFSET for offset in offsets.values()) else None


def write_offsets(fs: Filesystem, path: str, offsets: dict[tuple[str, int], int]) -> None:
    lines = ["0", str(len(offsets)), *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())]
    fs.write_file(path, ("\n".join(lines) + "\n").encode())


class LeaderEpochs:
    """Where each leader epoch starts (LeaderEpochFileCache); epochs and offsets both grow."""

    __slots__ = ("_entries", "_fs", "_is_unwritten", "_path")

    def __init__(self, fs: Filesystem, directory: str) -> None:
        self._fs = fs
        self._path = f"{directory}/{LEADER_EPOCH_FILE}"
        self._entries: list[tuple[int, int]] = []
        # Whether the disk has refused the file.
        self._is_unwritten = False

    def load(self) -> bool:
        """Take over the file; False where it is damaged, and what it said is to be taken from the batches."""
        raw = self._fs.read_file(self._path)
        lines = _lines(raw)
        try:
            entries = [(int(epoch), int(offset)) for epoch, offset in (line.split(" ") for line in lines or [])]
        except ValueError:
            return False
        numbers = [number for entry in entries for number in entry]
        ascends = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
        if (raw is not None and lines is None) or not ascends or not all(0 <= number <= MAX_OFFSET for number in numbers):
            return False
        self._entries = entries
        return True

    def refill(self, batches: Iterable[tuple[int, int]]) -> None:
        """Take leader epoch and base offset of every batch of the log instead. The file follows as soon as the disk takes it."""
        entries: list[tuple[int, int]] = []
        for epoch, offset in batches:
            if not entries or epoch > entries[-1][0]:
                entries.append((epoch, offset))
        self._believe(entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return self._entries

    @property
    def latest(self) -> int:
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of ``epoch`` is about to stand at ``start_offset``."""
        if self._entries and epoch <= self._entries[-1][0]:
            return
        self._replace([*(e for e in self._entries if e[1] < start_offset), (epoch, start_offset)])

    def restore(self, epoch: int, start_offset: int) -> None:
        """A start has found a batch of ``epoch`` in the log. The file follows as soon as the disk takes it."""
        self._believe([*(e for e in self._entries if e[1] < start_offset), (epoch, start_offset)])

    def truncate_end(self, log_end_offset: int) -> None:
        """Forget what begins at the end of the log. The file follows as soon as the disk takes it."""
        kept = [e for e in self._entries if e[1] < log_end_offset]
        if kept != self._entries:
            self._believe(kept)

    def truncate_start(self, log_start_offset: int) -> None:
        """Forget epochs that end before the log starts; the one that covers the start then starts there."""
        at = bisect_right([offset for _, offset in self._entries], log_start_offset) - 1
        if at > 0 or (at == 0 and self._entries[0][1] < log_start_offset):
            kept = [(self._entries[at][0], log_start_offset), *self._entries[at + 1 :]]
            self._believe(kept)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Largest known epoch at or below ``epoch`` and where it ends; (-1, -1) where nothing is known."""
        if not self._entries or epoch == NO_EPOCH:
            return NO_EPOCH, -1
        if epoch == self._entries[-1][0]:
            return epoch, log_end_offset
        at = bisect_right([e for e, _ in self._entries], epoch)
        if at == len(self._entries):
            return -1, -1
        if at == 0:
            return epoch, self._entries[0][1]
        return self._entries[at - 1][0], self._entries[at][1]

    def epoch_for(self, offset: int) -> int:
        at = bisect_right([start for _, start in self._entries], offset) - 1
        return self._entries[at][0] if at >= 0 else -1

    def flush(self) -> None:
        """Write the file where the disk refused to take it. Raises OSError."""
        if self._is_unwritten:
            self._replace(self._entries)

    def _believe(self, entries: list[tuple[int, int]]) -> None:
        """A full disk must not keep a log out of service, nor from giving room back: `flush` makes good what the file lacks."""
        self._entries, self._is_unwritten = entries, True
        with suppress(OSError):
            self._replace(entries)

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        """Write the file, then believe it: a refused write leaves both as they were."""
        lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
        self._fs.write_file(self._path, ("\n".join(lines) + "\n").encode())
        self._entries, self._is_unwritten = entries, False


def topic_id_text(topic_id: bytes) -> str:
    """Kafka's spelling of a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def parse_topic_id(text: str) -> bytes:
    """Raises ValueError."""
    topic_id = base64.urlsafe_b64decode(text + "==")
    if len(topic_id) != len(NO_UUID):
        raise ValueError(f"{text!r} is no topic id")
    return topic_id


def read_partition_metadata(fs: Filesystem, directory: str) -> bytes | None:
    """The topic id a partition directory belongs to, None where it does not say. Raises `Damaged`."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    # A power cut may leave a file without what was written to it.
    raw = (fs.read_file(path) or b"").strip(b"\0")
    try:
        for line in raw.decode().splitlines():
            name, _, value = line.partition(": ")
            if name == "topic_id":
                return parse_topic_id(value)
    except ValueError:
        raise Damaged(path, "it does not say whose partition this is; restore it, or move the directory away") from None
    return None


def write_partition_metadata(fs: Filesystem, directory: str, topic_id: bytes) -> None:
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    fs.write_file(f"{directory}/{PARTITION_METADATA_FILE}", text.encode())
