"""The disk of one simulated broker: it may be slow, be full, fail a sync, and lose what was not synced when the power is cut."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping

from ottla.simulation.faulty_filesystem import FaultyFilesystem, PowerCut
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem

KILLED = "kept"
"""The name of the state that a killed process leaves, in `TornDisk.states`."""


class Disk:
    """Keeps the files over crashes. ``fs`` is what the broker's present life sees."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._image: dict[str, bytes] = {}
        self._cut: PowerCut | None = None
        self._cut_in: int | None = None
        self._cut_within = ""
        self._fails_sync = False
        self.is_full = False
        self.cut_operation = ""
        """Kind and path of the operation in which the last life has ended."""
        self._begin_life(FaultyFilesystem())

    def _begin_life(self, files: FaultyFilesystem) -> None:
        self._cut, self._cut_in, self._fails_sync = None, None, False
        self._ended_at: int | None = None
        self.has_failed_sync = False
        """In this life, so that some partitions or the whole directory wait for another start."""
        self._faulty = files
        self.fs = TracingFilesystem(files)
        files.refuses = self._verdict

    def cut_power_in(self, operations: int, within: str = "") -> None:
        """Crash in the operation that comes after so many others, of those whose path has ``within`` in it."""
        self._cut_in, self._cut_within = operations, within

    def disarm(self) -> None:
        """No fault that was to come does."""
        self._cut_in, self._fails_sync = None, False

    def fail_next_sync(self) -> None:
        self._fails_sync = True

    def _verdict(self, number: int, kind: str, path: str) -> bool:
        if self._cut is not None:
            raise self._cut
        if self._cut_in is not None and self._cut_within in path:
            if self._cut_in <= 0:
                self._cut = PowerCut(self._rng.random())
                self.cut_operation = f"{kind} {path}"
                # What the broker's own cleaning up does to its files after this does not come about. A part of an append does.
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
        """The broker is gone. Files are as a kill leaves them, or as a power cut may; the name of that state."""
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
