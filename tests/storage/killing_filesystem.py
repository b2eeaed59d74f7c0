"""An in-memory file system that kills the process, or fails with an OSError, at a chosen operation that changes the disk."""

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
            # A kill during a write leaves the first half of the data in the file.
            self._made()[size:] = bytes(data)[: len(data) // 2]
            raise


class KillingFilesystem(FaultyFilesystem):
    """Records the operations that change the disk, and can kill the process at a chosen operation.

    Unlike `FaultyFilesystem`, it also counts renames, removals and syncs of directories. Renaming a directory is a single
    operation. Removing a directory is one operation for each file and directory in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, str]] = []
        self._is_dead = self._is_inside = False

    def write(self, kind: str, path: str) -> None:
        if self._is_inside:
            return
        if self._is_dead:
            # Cleanup code that runs after the kill must not change the disk.
            raise OSError("the process is dead")
        self.operations.append((kind, path))
        try:
            super().write(kind, path)
        except PowerCut:
            self._is_dead = True
            raise

    def begin(self, refuses: Callable[[int, str, str], bool] = lambda number, kind, path: False) -> None:
        """Restart the recording and the operation numbers from 0, and revive the process if it was killed.

        ``refuses`` is called for each operation, as in `FaultyFilesystem`.
        """
        first = self.writes + 1
        self.operations, self._is_dead = [], False
        self.refuses = lambda number, kind, path: refuses(number - first, kind, path)

    def kill_at(self, wanted: int) -> None:
        """Kill the process at the operation number ``wanted``, counted from 0."""

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
