"""A disk that remembers every operation, and what a power cut may leave of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.protocol.primitives import Buffer
from ottla.storage.memory_filesystem import MemoryFile, MemoryFilesystem

SECTOR_BYTES = 512


@dataclass(slots=True, frozen=True)
class Op:
    """One operation: append, truncate, sync, write (a file as a whole), rename, unlink, make_dir, remove_dir, sync_dir."""

    kind: str
    path: str
    data: bytes = b""
    size: int = 0
    to: str = ""


class TracedFile:
    """Tells the trace what is done to it, then does it."""

    __slots__ = ("_file", "_trace", "path")

    def __init__(self, file: MemoryFile, trace: list[Op]) -> None:
        self._file = file
        self._trace = trace
        self.path = file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer) -> None:
        self._trace.append(Op("append", self.path, bytes(data)))
        self._file.append(data)

    def read(self, size: int, offset: int) -> bytes:
        return self._file.read(size, offset)

    def truncate(self, size: int) -> None:
        self._trace.append(Op("truncate", self.path, size=size))
        self._file.truncate(size)

    def take_back(self, size: int) -> None:
        self.truncate(size)

    def cut_surplus(self) -> None: ...

    def check(self) -> None:
        self._file.check()

    def sync(self) -> None:
        self._trace.append(Op("sync", self.path))

    def close(self) -> None: ...


@dataclass(slots=True)
class TracingFilesystem:
    """`storage.filesystem.Filesystem` that keeps its operations."""

    real: MemoryFilesystem = field(default_factory=MemoryFilesystem)
    trace: list[Op] = field(default_factory=list)
    max_open_files: int = 0
    open_files: int = 0

    def open(self, path: str) -> TracedFile:
        return TracedFile(self.real.open(path), self.trace)

    def read_file(self, path: str) -> bytes | None:
        return self.real.read_file(path)

    def write_file(self, path: str, data: Buffer) -> None:
        self.trace.append(Op("write", path, bytes(data)))
        self.real.write_file(path, data)

    def sync_file(self, path: str) -> None:
        self.trace.append(Op("sync", path))
        self.real.sync_file(path)

    def spare_descriptors(self, count: int) -> None: ...

    def sync_dir(self, path: str) -> None:
        self.trace.append(Op("sync_dir", path))

    def rename(self, old: str, new: str) -> None:
        self.real.rename(old, new)
        self.trace.append(Op("rename", old, to=new))

    def unlink(self, path: str) -> None:
        if path in self.real.files:
            self.trace.append(Op("unlink", path))
            self.real.unlink(path)

    def is_dir(self, path: str) -> bool | None:
        return self.real.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        return self.real.list_dir(path)

    def make_dir(self, path: str) -> None:
        self.trace.append(Op("make_dir", path))
        self.real.make_dir(path)

    def remove_dir(self, path: str) -> None:
        self.trace.append(Op("remove_dir", path))
        self.real.remove_dir(path)

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


@dataclass(slots=True)
class _Content:
    """A file: all that was written, and how much of it the disk has for sure."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0


class Disk:
    """What the operating system has, operation by operation, and what a power cut makes of it."""

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._last: Op | None = None
        self._undo: dict[str, _Content | None] = {}

    def apply(self, op: Op) -> None:
        self._last = op
        self._undo = {}
        match op.kind:
            case "append":
                self._files.setdefault(op.path, _Content()).data += op.data
            case "truncate":
                found = self._files.setdefault(op.path, _Content())
                del found.data[op.size :]
                found.synced = min(found.synced, op.size)
            case "sync":
                if op.path in self._files:
                    self._files[op.path].synced = len(self._files[op.path].data)
            case "write":
                # Written beside, synced or not, and renamed over: the old content, or the new.
                self._undo = {op.path: self._files.get(op.path)}
                self._files[op.path] = _Content(bytearray(op.data), len(op.data))
            case "rename":
                moved = [p for p in self._files if p == op.path or p.startswith(f"{op.path}/")]
                for path in moved:
                    target = op.to + path[len(op.path) :]
                    self._undo |= {path: self._files[path], target: self._files.get(target)}
                    self._files[target] = self._files.pop(path)
            case "unlink":
                self._undo = {op.path: self._files.pop(op.path, None)}
            case "remove_dir":
                for path in [p for p in self._files if p.startswith(f"{op.path}/")]:
                    self._undo[path] = self._files.pop(path)

    def states(self, rng: random.Random) -> Iterator[tuple[str, dict[str, bytes]]]:
        """What may be found after a crash right here, by name. «kept» is a kill, all others are power cuts."""
        yield "kept", self._image(lambda path, c: bytes(c.data))
        yield "unsynced dropped", self._image(lambda path, c: bytes(c.data[: c.synced]))
        lucky = {path: rng.random() < 0.5 for path in self._files}
        yield "dropped by file", self._image(lambda path, c: bytes(c.data if lucky[path] else c.data[: c.synced]))
        yield "torn", self._image(lambda path, c: self._torn(c, rng))
        yield "zero tail", self._image(lambda path, c: bytes(c.data[: c.synced]) + bytes(len(c.data) - c.synced))
        if self._undo:
            image = self._image(lambda path, c: bytes(c.data))
            for path, before in self._undo.items():
                image.pop(path, None)
                if before is not None:
                    image[path] = bytes(before.data)
            yield "rename or unlink undone", image

    @staticmethod
    def _torn(content: _Content, rng: random.Random) -> bytes:
        """Unsynced sectors up to some point."""
        end = content.synced + rng.randrange(len(content.data) - content.synced + 1)
        end -= end % SECTOR_BYTES
        return bytes(content.data[: max(end, content.synced)])

    def _image(self, of: object) -> dict[str, bytes]:
        return {path: of(path, content) for path, content in self._files.items()}  # type: ignore[operator]
