"""The disk of a simulated broker. It may be slow or full, fail a sync, and lose unsynced data in a power cut."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping

from ottla.simulation.faulty_filesystem import FaultyFilesystem, PowerCut
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem

KILLED = "kept"
"""The name in `TornDisk.states` of the state after a kill."""


class Disk:
    """Keeps a machine's files across crashes. ``fs`` is the file system of the current process."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._image: dict[str, bytes] = {}
        self._cut: PowerCut | None = None
        self._cut_in: int | None = None
        self._cut_within = ""
        self._fails_sync = False
        self.is_full = False
        self.cut_operation = ""
        """Kind and path of the operation in which the last process crashed."""
        self._begin_life(FaultyFilesystem())

    def _begin_life(self, files: FaultyFilesystem) -> None:
        self._cut, self._cut_in, self._fails_sync = None, None, False
        self._ended_at: int | None = None
        self.has_failed_sync = False
        """Whether a sync has failed in this process, so that partitions or the directory are offline until the next start."""
        self._faulty = files
        self.fs = TracingFilesystem(files)
        files.refuses = self._verdict

    def cut_power_in(self, operations: int, within: str = "") -> None:
        """Crash in a disk operation on a path that contains ``within``, after ``operations`` other operations on such paths."""
        self._cut_in, self._cut_within = operations, within

    def disarm(self) -> None:
        """Cancel a planned crash and a planned sync failure."""
        self._cut_in, self._fails_sync = None, False

    def fail_next_sync(self) -> None:
        self._fails_sync = True

    @property
    def is_to_fail_sync(self) -> bool:
        """Whether `fail_next_sync` was called in this process, and no sync has followed yet."""
        return self._fails_sync

    def _verdict(self, number: int, kind: str, path: str) -> bool:
        if self._cut is not None:
            raise self._cut
        if self._cut_in is not None and self._cut_within in path:
            if self._cut_in <= 0:
                self._cut = PowerCut(self._rng.random())
                self.cut_operation = f"{kind} {path}"
                # Operations after the crash, such as the broker's clean-up, do not reach the disk, but a part of the interrupted
                # append does.
                self._ended_at = len(self.fs.trace) + (kind == "append")
                raise self._cut
            self._cut_in -= 1
        self._faulty.error = errno.ENOSPC
        if kind == "sync" and self._fails_sync:
            self._fails_sync, self.has_failed_sync = False, True
            self._faulty.error = errno.EIO
            return True
        return self.is_full and kind in ("append", "write", "make_dir")

    def crash(self, *, power_cut: bool) -> str:
        """End the process, and keep the files in a state that a kill or a power cut may leave. Returns the state's name."""
        disk = self._torn()
        states = list(disk.states(self._rng))
        name, self._image = self._rng.choice(states[1:]) if power_cut else states[0]
        self._begin_life(_with_files(self._image))
        return name

    def unsynced_bytes(self) -> int:
        return self._torn().unsynced_bytes

    def _torn(self) -> TornDisk:
        disk = TornDisk(self._image)
        for operation in self.fs.trace[: self._ended_at]:
            disk.apply(operation)
        return disk

    @property
    def files(self) -> Mapping[str, bytearray]:
        return self._faulty.files


def _with_files(image: Mapping[str, bytes]) -> FaultyFilesystem:
    files = FaultyFilesystem()
    for path, data in image.items():
        files.write_file(path, data)
    return files
