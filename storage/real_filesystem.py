"""Files of the operating system. The only module of this room that imports ``os``."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections import deque

from protocol.primitives import Buffer

MAX_OPEN_FILES = 2_000
"""Descriptors kept open; beyond that the oldest are closed and opened again when they are needed."""


class RealFile:
    """Opens its descriptor at first use and again after the filesystem has taken it away."""

    __slots__ = ("_fd", "_fs", "path", "size")

    def __init__(self, fs: RealFilesystem, path: str) -> None:
        self._fs = fs
        self._fd = -1
        self.path = path
        try:
            self.size = os.stat(path).st_size
        except FileNotFoundError:
            self.size = 0

    def _open(self) -> int:
        self._fd = os.open(self.path, self._fs.flags, 0o644)
        self._fs.opened(self)
        return self._fd

    def append(self, data: Buffer) -> None:
        fd = self._fd if self._fd >= 0 else self._open()
        start, total, done = self.size, len(data), 0
        try:
            done = os.pwrite(fd, data, start)
            while done < total:
                done += os.pwrite(fd, memoryview(data)[done:], start + done)
        except OSError:
            if done:
                os.ftruncate(fd, start)
            raise
        self.size = start + total

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd if self._fd >= 0 else self._open(), size, offset)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd if self._fd >= 0 else self._open(), size)
        self.size = size

    def sync(self) -> None:
        if self.size or self._fd >= 0:
            os.fdatasync(self._fd if self._fd >= 0 else self._open())

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._fs.closed()


class RealFilesystem:
    """`Filesystem` on the local disk, with a bound on open descriptors. ``read_only`` files are never made or written."""

    def __init__(self, max_open_files: int = MAX_OPEN_FILES, *, read_only: bool = False) -> None:
        self.flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT)
        self._open_files: deque[RealFile] = deque()
        self._open_count = 0
        self._max_open_files = max_open_files

    def opened(self, file: RealFile) -> None:
        self._open_files.append(file)
        self._open_count += 1
        while self._open_count > self._max_open_files:
            self._open_files.popleft().close()
        if len(self._open_files) > 4 * self._max_open_files:
            self._open_files = deque(f for f in self._open_files if f._fd >= 0)

    def closed(self) -> None:
        self._open_count -= 1

    def open(self, path: str) -> RealFile:
        return RealFile(self, path)

    def read_file(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_file(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def sync_file(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_dir(self, path: str) -> None:
        for directory in (path, os.path.dirname(path)):
            fd = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_dir(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=False)

    def remove_empty_dir(self, path: str) -> None:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def space(self, path: str) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def lock(self, path: str) -> object | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return fd

    def unlock(self, lock: object) -> None:
        if isinstance(lock, int):
            os.close(lock)
