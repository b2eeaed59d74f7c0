"""Files in memory of a process that is killed, or whose disk refuses, at any operation that changes the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.protocol.primitives import Buffer
from ottla.simulation.faulty_filesystem import FaultyFile, FaultyFilesystem, PowerCut


class _File(FaultyFile):
    def append(self, data: Buffer) -> None:
        size = self.size
        try:
            super().append(data)
        except PowerCut:
            # A kill during the write leaves a part of it.
            self._made()[size:] = bytes(data)[: len(data) // 2]
            raise


class KillingFilesystem(FaultyFilesystem):
    """Lists the operations that change the disk, and may kill the process at one of them.

    Other than in `FaultyFilesystem`, renames of directories, removals and syncs of directories count as well. The rename of a
    directory is one operation; its removal is one for each file and directory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, str]] = []
        self._is_dead = self._is_inside = False

    def write(self, kind: str, path: str) -> None:
        if self._is_inside:
            return
        if self._is_dead:
            # Clean-up of the dead process does not reach the disk.
            raise OSError("the process is dead")
        self.operations.append((kind, path))
        try:
            super().write(kind, path)
        except PowerCut:
            self._is_dead = True
            raise

    def begin(self, refuses: Callable[[int, str, str], bool] = lambda number, kind, path: False) -> None:
        """List operations again, in a new process if the last one died. ``refuses`` gets numbers from 0 (`FaultyFilesystem`)."""
        first = self.writes + 1
        self.operations, self._is_dead = [], False
        self.refuses = lambda number, kind, path: refuses(number - first, kind, path)

    def kill_at(self, wanted: int) -> None:
        """Kill the process at an operation, counted from 0."""

        def refuses(number: int, kind: str, path: str) -> bool:
            if number == wanted:
                raise PowerCut
            return False

        self.begin(refuses)

    @contextmanager
    def _one(self, kind: str, path: str) -> Iterator[None]:
        self.write(kind, path)
        before, self._is_inside = self._is_inside, True
        try:
            yield
        finally:
            self._is_inside = before

    def open(self, path: str) -> _File:
        return _File(self, path)

    def sync_dir(self, path: str) -> None:
        self.write("sync_dir", path)

    def rename(self, old: str, new: str) -> None:
        with self._one("rename", old):
            super().rename(old, new)

    def remove_empty_dir(self, path: str) -> None:
        self.write("remove_empty_dir", path)
        super().remove_empty_dir(path)
