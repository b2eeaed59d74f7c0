"""Files in memory whose operations fail, once or until a test ends the fault."""

from __future__ import annotations

import errno
from collections.abc import Callable

from ottla.protocol.primitives import Buffer
from ottla.simulation.memory_filesystem import MemoryFile, MemoryFilesystem

_TEXTS = {errno.ENOSPC: "No space left on device", errno.EIO: "Input/output error"}


class PowerCut(BaseException):
    """A crash during a disk operation. ``kept`` is the share of an append that still reaches the disk.

    The class is a BaseException, so that no ``except Exception`` of the broker catches it. `Disk` raises it again for later
    operations.
    """

    def __init__(self, kept: float = 0.0) -> None:
        super().__init__()
        self.kept = kept


class FaultyFile(MemoryFile):
    def append(self, data: Buffer) -> None:
        self._faulty.write("append", self.path)
        super().append(data)

    def truncate(self, size: int) -> None:
        self._faulty.write("truncate", self.path)
        super().truncate(size)

    def take_back(self, size: int) -> None:
        super().truncate(size)

    def sync(self) -> None:
        self._faulty.write("sync", self.path)
        super().sync()

    @property
    def _faulty(self) -> FaultyFilesystem:
        assert isinstance(self._fs, FaultyFilesystem)
        return self._fs


class FaultyFilesystem(MemoryFilesystem):
    """Files in memory whose changes may fail. ``writes`` counts changes and syncs. ``refuses`` returns whether an operation fails,
    given its number, kind and path."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.refused = 0
        self.error = errno.ENOSPC
        self.refuses: Callable[[int, str, str], bool] = lambda number, kind, path: False

    def write(self, kind: str, path: str) -> None:
        self.writes += 1
        if self.refuses(self.writes, kind, path):
            self.refused += 1
            raise OSError(self.error, _TEXTS.get(self.error, "Refused"), path)

    def refuse_nothing(self) -> None:
        self.refuses = lambda number, kind, path: False

    def refuse_everything(self) -> None:
        """Fail appends, writes and new directories. Renames and removals succeed, as on a full disk, because they need no space."""
        self.refuses = lambda number, kind, path: kind in ("append", "write", "make_dir")

    def refuse_the(self, nth: int) -> None:
        """Fail a single operation, after ``nth`` more operations have succeeded."""
        wanted = self.writes + nth + 1
        self.refuses = lambda number, kind, path: number == wanted

    def copy(self) -> MemoryFilesystem:
        """Return a copy of the files as a kill at this moment would leave them."""
        copied = MemoryFilesystem()
        for path, content in self.files.items():
            copied.write_file(path, content)
        return copied

    def open(self, path: str) -> FaultyFile:
        return FaultyFile(self, path)

    def write_file(self, path: str, data: Buffer) -> None:
        self.write("write", path)
        super().write_file(path, data)

    def sync_file(self, path: str) -> None:
        self.write("sync", path)
        super().sync_file(path)

    def rename(self, old: str, new: str) -> None:
        if old in self.files:
            self.write("rename", old)
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        if path in self.files:
            self.write("unlink", path)
        super().unlink(path)

    def make_dir(self, path: str) -> None:
        if self.is_dir(path) is None:
            self.write("make_dir", path)
        super().make_dir(path)
