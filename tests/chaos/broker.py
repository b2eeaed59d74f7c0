"""The broker under test: ottla's command line with wrapped file operations, which trigger the planned faults.

The environment variable ``CHAOS_PLAN`` has the faults for this process. ``CHAOS_HITS`` is the path of a file to which each fault
is written just before it is triggered.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ottla.storage import real_filesystem
from ottla.storage.real_filesystem import RealFile, RealFilesystem
from tests.chaos.points import (
    AFTER,
    BEFORE,
    FILE,
    FULL,
    KILL,
    PAUSE,
    TERM,
    TORN,
    TRUNCATE,
    Classifier,
    Fault,
    Hit,
    Write,
    decode,
    die_with_parent,
)

SIGNALS = {KILL: signal.SIGKILL, PAUSE: signal.SIGSTOP, TERM: signal.SIGTERM}


class Disk:
    """Replaces the module ``os`` in `storage.real_filesystem`. While the simulated disk is full, writes fail with ENOSPC."""

    def __init__(self) -> None:
        self._room_bytes: int | None = None
        self._until_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fill(self, room_bytes: int, for_ms: int) -> None:
        self._room_bytes, self._until_s = room_bytes, time.monotonic() + for_ms / 1000

    def _take(self, size: int) -> int:
        """Return how many of ``size`` bytes still fit on the disk. Raises an OSError with ENOSPC if no byte fits."""
        if self._room_bytes is None or time.monotonic() > self._until_s:
            self._room_bytes = None
            return size
        taken = min(size, self._room_bytes)
        self._room_bytes -= taken
        if taken == 0 < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        return os.pwrite(fd, memoryview(data)[: self._take(len(data))], offset)

    def makedirs(self, path: str, *, exist_ok: bool) -> None:
        if not os.path.isdir(path):  # noqa: PTH112
            self._take(1)
        os.makedirs(path, exist_ok=exist_ok)  # noqa: PTH103

    def open_whole(self, file: str | int, mode: str = "r", **options: Any) -> Any:
        """Replaces the built-in ``open``, with which the broker writes small files."""
        if "w" in mode:
            try:
                self._take(1)
            except OSError:
                if isinstance(file, int):
                    os.close(file)
                raise
        return open(file, mode, **options)  # noqa: PTH123


class Faults:
    """The planned faults of one broker process."""

    def __init__(self, faults: list[Fault], hits_path: str, disk: Disk) -> None:
        self._faults = faults
        self._hits_path = hits_path
        self._disk = disk
        self.classifier = Classifier()

    def due(self, write: Write, side: str) -> Fault | None:
        """Count the write for each fault that matches it. Returns the fault that hits this write, or None."""
        due = None
        for fault in self._faults:
            if fault.kind != write.kind or fault.side != side or fault.commit not in (None, write.commit):
                continue
            if fault.written <= self.classifier.progress(write)[0]:
                fault.countdown -= 1
                if fault.countdown == 0:
                    due = fault
        return due

    def hit(self, fault: Fault, write: Write) -> None:
        written, pending = self.classifier.progress(write)
        triggered = Hit(write.kind, fault.side, fault.do, write.commit, written, pending)
        fd = os.open(self._hits_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, (json.dumps(asdict(triggered)) + "\n").encode())
        os.close(fd)
        if fault.do == FULL:
            self._disk.fill(fault.room_bytes, fault.for_ms)
        else:
            os.kill(os.getpid(), SIGNALS[fault.do])

    def around(self, write: Write, do: Callable[[], Any]) -> Any:
        before = self.due(write, BEFORE)
        if before is not None:
            self.hit(before, write)
        result = do()
        self.classifier.wrote(write)
        after = self.due(write, AFTER)
        if after is not None:
            self.hit(after, write)
        return result


def install(faults: Faults, disk: Disk) -> None:
    """Wrap all methods that change files, so that the faults are triggered there (`storage.filesystem`)."""
    append, truncate, write_file, rename = RealFile.append, RealFile.truncate, RealFilesystem.write_file, RealFilesystem.rename

    def wrapped_append(self: RealFile, data: Any) -> None:
        write = faults.classifier.name(self.path, data)
        torn = faults.due(write, TORN) if len(data) > 1 else None
        if torn is not None:
            append(self, memoryview(data)[: max(1, len(data) * (1 + torn.room_bytes % 7) // 8)])
            faults.hit(torn, write)
        faults.around(write, lambda: append(self, data))

    def wrapped_truncate(self: RealFile, size: int) -> None:
        faults.around(Write(TRUNCATE), lambda: truncate(self, size))

    def wrapped_write_file(self: RealFilesystem, path: str, data: Any) -> None:
        faults.around(Write(FILE), lambda: write_file(self, path, data))

    def wrapped_rename(self: RealFilesystem, old: str, new: str) -> None:
        faults.around(Write(FILE), lambda: rename(self, old, new))

    for owner, name, wrapped in (
        (RealFile, "append", wrapped_append),
        (RealFile, "truncate", wrapped_truncate),
        (RealFilesystem, "write_file", wrapped_write_file),
        (RealFilesystem, "rename", wrapped_rename),
        (real_filesystem, "os", disk),
        (real_filesystem, "open", disk.open_whole),
    ):
        setattr(owner, name, wrapped)


def main() -> int:
    from ottla.cli import main as serve

    die_with_parent()
    disk = Disk()
    install(Faults(decode(os.environ.get("CHAOS_PLAN", "[]")), os.environ["CHAOS_HITS"], disk), disk)
    return serve(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
