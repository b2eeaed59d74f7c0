"""Files in memory, for simulations and tests without a disk."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType

from ottla.protocol.primitives import Buffer

TOTAL_BYTES = 1 << 40


class MemoryFile:
    """An open file. Its content remains usable when the file is renamed or unlinked."""

    __slots__ = ("_content", "_fs", "path")

    def __init__(self, fs: MemoryFilesystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self._content = fs.files.get(path)

    @property
    def size(self) -> int:
        return 0 if self._content is None else len(self._content)

    def _made(self) -> bytearray:
        if self._content is None:
            self._content = self._fs.made(self.path)
        return self._content

    def append(self, data: Buffer) -> None:
        content = self._made()
        content += data

    def read(self, size: int, offset: int) -> bytes:
        return bytes(self._made()[offset : offset + size])

    def truncate(self, size: int) -> None:
        del self._made()[size:]

    def take_back(self, size: int) -> None:
        self.truncate(size)

    def cut_surplus(self) -> None: ...

    def check(self) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class MemoryFilesystem:
    """Implements `storage.filesystem.Filesystem` in memory. ``files`` are initial contents by path."""

    def __init__(self, files: Mapping[str, Buffer] | None = None) -> None:
        self.max_open_files = 0
        self._files: dict[str, bytearray] = {}
        self._names: dict[str, set[str]] = {"": set()}
        """For the path of each directory: the names of its files and directories."""
        self._locks: set[str] = set()
        for path, data in (files or {}).items():
            self.write_file(path, data)

    @property
    def files(self) -> Mapping[str, bytearray]:
        """The contents of all files by path, read-only."""
        return MappingProxyType(self._files)

    @property
    def open_files(self) -> int:
        """Always 0, because files in memory have no descriptors."""
        return 0

    def made(self, path: str) -> bytearray:
        """Return the content of the file. Creates the file if it does not exist."""
        content = self._files.get(path)
        if content is None:
            content = self._files[path] = bytearray()
            self._enter(path)
        return content

    def _enter(self, path: str) -> None:
        while path:
            path, _, name = path.rpartition("/")
            if path in self._names:
                self._names[path].add(name)
                return
            self._names[path] = {name}

    def _leave(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._names[directory].discard(name)

    def open(self, path: str) -> MemoryFile:
        return MemoryFile(self, path)

    def read_file(self, path: str) -> bytes | None:
        content = self._files.get(path)
        return None if content is None else bytes(content)

    def write_file(self, path: str, data: Buffer) -> None:
        if path not in self._files:
            self._enter(path)
        self._files[path] = bytearray(data)

    def sync_file(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(2, "No such file", path)

    def sync_dir(self, path: str) -> None: ...

    def spare_descriptors(self, count: int) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory. A file replaces an existing file, and a directory replaces an empty directory."""
        if old in self._files:
            self._enter(new)
            self._files[new] = self._files.pop(old)
        elif old in self._names:
            if self._names.get(new):
                raise OSError(errno.ENOTEMPTY, "Directory not empty", new)
            self.make_dir(new)
            for name in self.list_dir(old):
                self.rename(f"{old}/{name}", f"{new}/{name}")
            del self._names[old]
        else:
            raise FileNotFoundError(2, "No such file", old)
        self._leave(old)

    def unlink(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            self._leave(path)

    def is_dir(self, path: str) -> bool | None:
        if path in self._names:
            return True
        return False if path in self._files else None

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._names.get(path, ()))

    def make_dir(self, path: str) -> None:
        if path not in self._names:
            self._enter(path)
            self._names[path] = set()

    def remove_dir(self, path: str) -> None:
        for name in self.list_dir(path):
            inside = f"{path}/{name}"
            if inside in self._names:
                self.remove_dir(inside)
            else:
                self.unlink(inside)
        self.remove_empty_dir(path)

    def remove_empty_dir(self, path: str) -> None:
        names = self._names.get(path)
        if names is None:
            return
        if names:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        del self._names[path]
        self._leave(path)

    def space(self, path: str) -> tuple[int, int]:
        return TOTAL_BYTES, TOTAL_BYTES - sum(map(len, self._files.values()))

    def absolute(self, path: str) -> str:
        return path

    def lock(self, path: str) -> object | None:
        if path in self._locks:
            return None
        self._locks.add(path)
        return path

    def holds(self, lock: object, path: str) -> bool:
        return path in self._locks

    def unlock(self, lock: object) -> None:
        self._locks.discard(str(lock))

    def crashed(self) -> None:
        """Release the locks of a process that has ended."""
        self._locks.clear()
