"""A power cut of one broker, which loses unsynced data of its logs.

At each sync of a log file, the broker records the file's length in a file outside the data directory
(`tests.chaos.unclean.served`). A power cut truncates each log to a random length between the synced length and its end.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from urllib.parse import quote

from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.storage.names import parse_directory_name
from ottla.storage.real_filesystem import RealFile, RealFilesystem

SYNCED_VARIABLE = "CHAOS_SYNCED"
"""Environment variable with the directory of the recorded lengths."""
SUFFIX = ".log"


class SyncedLengths:
    """The synced lengths of log files. A length belongs to one inode: a new file at the same path has the length 0."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _note_of(self, path: str) -> Path:
        # The last three components of the path are the broker's directory, the partition's directory and the file.
        return self._directory / quote("/".join(Path(path).parts[-3:]), safe="")

    def note(self, path: str, length: int) -> None:
        """Record that the first ``length`` bytes of a file are synced."""
        try:
            inode = os.stat(path).st_ino  # noqa: PTH116
        except FileNotFoundError:
            return
        with self._note_of(path).open("w") as note:
            note.write(f"{inode} {length}")

    def of(self, path: Path) -> int:
        try:
            inode, length = self._note_of(str(path)).read_text().split()
        except (FileNotFoundError, ValueError):
            return 0
        return min(int(length), path.stat().st_size) if int(inode) == path.stat().st_ino else 0


def note_syncs(lengths: SyncedLengths) -> None:
    """Wrap the methods of this process that sync or truncate a file, so that they record synced lengths."""
    sync, truncate, sync_file = RealFile.sync, RealFile.truncate, RealFilesystem.sync_file

    def noted_sync(self: RealFile) -> None:
        length = self.size
        sync(self)
        if self.path.endswith(SUFFIX):
            lengths.note(self.path, length)

    def noted_truncate(self: RealFile, size: int) -> None:
        truncate(self, size)
        if self.path.endswith(SUFFIX):
            lengths.note(self.path, min(size, lengths.of(Path(self.path))))

    def noted_sync_file(self: RealFilesystem, path: str) -> None:
        # The event loop may append while this thread syncs, so only the bytes written before the sync count as synced.
        length = os.stat(path).st_size if path.endswith(SUFFIX) else 0  # noqa: PTH116
        sync_file(self, path)
        if path.endswith(SUFFIX):
            lengths.note(path, length)

    for owner, name, wrapped in (
        (RealFile, "sync", noted_sync),
        (RealFile, "truncate", noted_truncate),
        (RealFilesystem, "sync_file", noted_sync_file),
    ):
        setattr(owner, name, wrapped)


def cut_power(log_dir: Path, lengths: SyncedLengths, rng: random.Random) -> int:
    """Remove a random part of the unsynced data from each log of a stopped broker. Returns the number of lost bytes."""
    lost = 0
    for directory in sorted(log_dir.iterdir()):
        where = parse_directory_name(directory.name)
        if where is not None and where[0] != METADATA_TOPIC:
            lost += _cut_log(sorted(directory.glob(f"*{SUFFIX}")), lengths, rng)
    return lost


def _cut_log(segments: list[Path], lengths: SyncedLengths, rng: random.Random) -> int:
    for at, segment in enumerate(segments):
        size, synced = segment.stat().st_size, lengths.of(segment)
        kept = rng.choice([synced, rng.randint(synced, size)])
        if kept < size:
            os.truncate(segment, kept)
            later = [other for other in segments[at + 1 :] if other.exists()]
            lost = size - kept + sum(other.stat().st_size for other in later)
            for other in later:
                for file in segment.parent.glob(f"{other.stem}.*"):
                    file.unlink()
            return lost
    return 0
