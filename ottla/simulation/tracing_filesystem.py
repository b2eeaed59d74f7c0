"""Files in memory with a trace of all operations, from which `simulation.torn_disk` derives the states after a crash."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.protocol.primitives import Buffer
from ottla.simulation.faulty_filesystem import PowerCut
from ottla.simulation.memory_filesystem import MemoryFile, MemoryFilesystem


@dataclass(slots=True, frozen=True)
class Op:
    """A file operation. Kinds: append, truncate, sync, write (a whole file), rename, unlink, make_dir, remove_dir, sync_dir."""

    kind: str
    path: str
    data: bytes = b""
    size: int = 0
    to: str = ""


class TracedFile:
    """Passes operations on to a file, and adds them to the trace."""

    __slots__ = ("_file", "_trace", "path")

    def __init__(self, file: MemoryFile, trace: list[Op]) -> None:
        self._file = file
        self._trace = trace
        self.path = file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer) -> None:
        try:
            self._file.append(data)
        except PowerCut as cut:
            self._trace.append(Op("append", self.path, bytes(data)[: int(len(data) * cut.kept)]))
            raise
        self._trace.append(Op("append", self.path, bytes(data)))

    def read(self, size: int, offset: int) -> bytes:
        return self._file.read(size, offset)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self._trace.append(Op("truncate", self.path, size=size))

    def take_back(self, size: int) -> None:
        self._file.take_back(size)
        self._trace.append(Op("truncate", self.path, size=size))

    def cut_surplus(self) -> None: ...

    def check(self) -> None:
        self._file.check()

    def sync(self) -> None:
        self._file.sync()
        self._trace.append(Op("sync", self.path))

    def close(self) -> None: ...


@dataclass(slots=True)
class TracingFilesystem:
    """A `storage.filesystem.Filesystem` that records its operations."""

    real: MemoryFilesystem = field(default_factory=MemoryFilesystem)
    trace: list[Op] = field(default_factory=list)
    max_open_files: int = 0
    open_files: int = 0

    def unsynced_bytes(self, path: str) -> int:
        """Return the number of bytes appended to a file since its last sync. Data older than the trace is synced."""
        size = 0
        for op in reversed(self.trace):
            if op.path == path:
                if op.kind == "sync":
                    break
                if op.kind == "append":
                    size += len(op.data)
        return size

    def open(self, path: str) -> TracedFile:
        return TracedFile(self.real.open(path), self.trace)

    def read_file(self, path: str) -> bytes | None:
        return self.real.read_file(path)

    def write_file(self, path: str, data: Buffer) -> None:
        self.real.write_file(path, data)
        self.trace.append(Op("write", path, bytes(data)))

    def sync_file(self, path: str) -> None:
        self.real.sync_file(path)
        self.trace.append(Op("sync", path))

    def spare_descriptors(self, count: int) -> None: ...

    def sync_dir(self, path: str) -> None:
        self.trace.append(Op("sync_dir", path))

    def rename(self, old: str, new: str) -> None:
        self.real.rename(old, new)
        self.trace.append(Op("rename", old, to=new))

    def unlink(self, path: str) -> None:
        if path in self.real.files:
            self.real.unlink(path)
            self.trace.append(Op("unlink", path))

    def is_dir(self, path: str) -> bool | None:
        return self.real.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        return self.real.list_dir(path)

    def make_dir(self, path: str) -> None:
        self.real.make_dir(path)
        self.trace.append(Op("make_dir", path))

    def remove_dir(self, path: str) -> None:
        self.real.remove_dir(path)
        self.trace.append(Op("remove_dir", path))

    def remove_empty_dir(self, path: str) -> None:
        self.real.remove_empty_dir(path)

    def space(self, path: str) -> tuple[int, int]:
        return self.real.space(path)

    def absolute(self, path: str) -> str:
        return path

    def lock(self, path: str) -> object | None:
        return self.real.lock(path)

    def holds(self, lock: object, path: str) -> bool:
        return self.real.holds(lock, path)

    def unlock(self, lock: object) -> None:
        self.real.unlock(lock)

    def crashed(self) -> None:
        self.real.crashed()
