"""Files in memory, for a broker without a disk: simulations and tests."""

from __future__ import annotations

from protocol.primitives import Buffer

TOTAL_BYTES = 1 << 40


class MemoryFile:
    """A handle; the content lives on when the file is renamed or unlinked under it."""

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
            self._content = self._fs.files.setdefault(self.path, bytearray())
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
    """`storage.filesystem.Filesystem` without an operating system. ``files`` by path."""

    def __init__(self) -> None:
        self.max_open_files = 0
        self.files: dict[str, bytearray] = {}
        self._dirs: set[str] = set()
        self._locks: set[str] = set()

    @property
    def open_files(self) -> int:
        """None has a descriptor."""
        return 0

    def open(self, path: str) -> MemoryFile:
        return MemoryFile(self, path)

    def read_file(self, path: str) -> bytes | None:
        found = self.files.get(path)
        return None if found is None else bytes(found)

    def write_file(self, path: str, data: Buffer) -> None:
        self.files[path] = bytearray(data)

    def sync_file(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file", path)

    def sync_dir(self, path: str) -> None: ...

    def spare_descriptors(self, count: int) -> None: ...

    def rename(self, old: str, new: str) -> None:
        if old in self.files:
            self.files[new] = self.files.pop(old)
            return
        under = [p for p in self.files if p.startswith(f"{old}/")]
        if not under and old not in self._dirs:
            raise FileNotFoundError(2, "No such file", old)
        for path in under:
            self.files[new + path[len(old) :]] = self.files.pop(path)
        self._dirs.discard(old)
        self._dirs.add(new)

    def unlink(self, path: str) -> None:
        self.files.pop(path, None)

    def is_dir(self, path: str) -> bool | None:
        if path in self._dirs or any(p.startswith(f"{path}/") for p in self.files):
            return True
        return False if path in self.files else None

    def list_dir(self, path: str) -> list[str]:
        names = {p[len(path) + 1 :].partition("/")[0] for p in [*self.files, *self._dirs] if p.startswith(f"{path}/")}
        return sorted(names)

    def make_dir(self, path: str) -> None:
        self._dirs.add(path)

    def remove_dir(self, path: str) -> None:
        for inside in [p for p in self.files if p.startswith(f"{path}/")]:
            del self.files[inside]
        self._dirs = {d for d in self._dirs if d != path and not d.startswith(f"{path}/")}

    def remove_empty_dir(self, path: str) -> None:
        self._dirs.discard(path)

    def space(self, path: str) -> tuple[int, int]:
        return TOTAL_BYTES, TOTAL_BYTES - sum(map(len, self.files.values()))

    def absolute(self, path: str) -> str:
        return path

    def lock(self, path: str) -> object | None:
        if path in self._locks:
            return None
        self._locks.add(path)
        return path

    def unlock(self, lock: object) -> None:
        self._locks.discard(str(lock))

    def crashed(self) -> None:
        """The process that held the locks is gone."""
        self._locks.clear()
