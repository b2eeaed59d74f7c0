"""Small text files next to the logs: offset checkpoints, the leader epoch checkpoint, partition.metadata."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

from ottla.protocol.uuids import parse_uuid, uuid_text
from ottla.storage.filesystem import Damaged, Filesystem

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
NO_EPOCH = -1
MAX_OFFSET = 0x7FFFFFFFFFFFFFFF


def _lines(raw: bytes | None) -> list[str] | None:
    """The entry lines of a checkpoint (version, count, entries); None if the file is missing or damaged."""
    if raw is None:
        return None
    lines = raw.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdigit() or len(lines) - 2 != int(lines[1]):
        return None
    return lines[2:]


def read_offsets(fs: Filesystem, path: str) -> dict[tuple[str, int], int]:
    """The offsets in an offset checkpoint by topic and partition; empty if the file is missing or damaged.

    To change a checkpoint use `parse_offsets`, which reports damage: otherwise a damaged file's entries would be lost.
    """
    return parse_offsets(fs.read_file(path)) or {}


def parse_offsets(raw: bytes | None) -> dict[tuple[str, int], int] | None:
    """The offsets in an offset checkpoint's content by topic and partition; None if the file is missing or damaged."""
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
    """The start offset of each leader epoch (LeaderEpochFileCache). Epochs and start offsets both ascend."""

    __slots__ = ("_entries", "_fs", "_is_unwritten", "_path")

    def __init__(self, fs: Filesystem, directory: str) -> None:
        self._fs = fs
        self._path = f"{directory}/{LEADER_EPOCH_FILE}"
        self._entries: list[tuple[int, int]] = []
        # Whether the entries in memory are newer than the file, because a write failed.
        self._is_unwritten = False

    def load(self) -> bool:
        """Read the checkpoint. Returns False if it is damaged: the caller then passes the log's batches to `refill`."""
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
        """Rebuild the entries from the leader epoch and base offset of every batch of the log.

        `flush` retries a failed write.
        """
        entries: list[tuple[int, int]] = []
        for epoch, offset in batches:
            if not entries or epoch > entries[-1][0]:
                entries.append((epoch, offset))
        self._replace_and_try_write(entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return self._entries

    @property
    def latest(self) -> int:
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch before its first batch is written at ``start_offset``. Changes nothing if it raises OSError."""
        if self._entries and epoch <= self._entries[-1][0]:
            return
        self._replace([*(e for e in self._entries if e[1] < start_offset), (epoch, start_offset)])

    def restore(self, epoch: int, start_offset: int) -> None:
        """Add an epoch whose first batch recovery found in the log. `flush` retries a failed write."""
        self._replace_and_try_write([*(e for e in self._entries if e[1] < start_offset), (epoch, start_offset)])

    def truncate_end(self, log_end_offset: int) -> None:
        """Remove epochs that start at or after the log end. `flush` retries a failed write."""
        kept = [e for e in self._entries if e[1] < log_end_offset]
        if kept != self._entries:
            self._replace_and_try_write(kept)

    def truncate_start(self, log_start_offset: int) -> None:
        """Remove epochs that end at or before the log start. The epoch that contains the log start then begins there."""
        at = bisect_right([offset for _, offset in self._entries], log_start_offset) - 1
        if at > 0 or (at == 0 and self._entries[0][1] < log_start_offset):
            kept = [(self._entries[at][0], log_start_offset), *self._entries[at + 1 :]]
            self._replace_and_try_write(kept)

    def end_offset_for(self, epoch: int, log_end_offset: int, current_epoch: int = NO_EPOCH) -> tuple[int, int]:
        """Return the largest known epoch at or below ``epoch``, and the epoch's end offset (LeaderEpochFileCache.endOffsetFor).

        An epoch below the first known epoch ends where the first known epoch starts. Returns (-1, -1) for an epoch above the
        latest. The current leader epoch ``current_epoch`` begins at the log end if it has no batch.
        """
        latest = max(self.latest, current_epoch)
        if epoch == NO_EPOCH or epoch > latest:
            return NO_EPOCH, -1
        if epoch == latest:
            return epoch, log_end_offset
        at = bisect_right([e for e, _ in self._entries], epoch)
        if at == len(self._entries):
            return (self._entries[-1][0] if self._entries else epoch), log_end_offset
        if at == 0:
            return epoch, self._entries[0][1]
        return self._entries[at - 1][0], self._entries[at][1]

    def epoch_for(self, offset: int) -> int:
        at = bisect_right([start for _, start in self._entries], offset) - 1
        return self._entries[at][0] if at >= 0 else -1

    def flush(self) -> None:
        """Write the checkpoint if an earlier write failed. Raises OSError."""
        if self._is_unwritten:
            self._replace(self._entries)

    def _replace_and_try_write(self, entries: list[tuple[int, int]]) -> None:
        """Replace the entries in memory and try to write the file. `flush` retries a failed write.

        If a full disk raised an error here, a log would be out of service, or retention could not free space.
        """
        self._entries, self._is_unwritten = entries, True
        with suppress(OSError):
            self._replace(entries)

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        """Write the checkpoint, then replace the entries in memory. Changes neither if it raises OSError."""
        lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
        self._fs.write_file(self._path, ("\n".join(lines) + "\n").encode())
        self._entries, self._is_unwritten = entries, False


def read_partition_metadata(fs: Filesystem, directory: str) -> bytes | None:
    """The topic id in a directory's partition.metadata; None if the file has none or is missing. Raises `Damaged`."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    # After a power cut the file may have the right length but contain only zero bytes.
    raw = (fs.read_file(path) or b"").strip(b"\0")
    try:
        for line in raw.decode().splitlines():
            name, _, value = line.partition(": ")
            if name == "topic_id":
                return parse_uuid(value)
    except ValueError:
        raise Damaged(path, "the file does not name the topic of this partition; restore it, or move the directory away") from None
    return None


def write_partition_metadata(fs: Filesystem, directory: str, topic_id: bytes) -> None:
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    fs.write_file(f"{directory}/{PARTITION_METADATA_FILE}", text.encode())
