"""Implements `Filesystem` with the files of the operating system. No other module of this package imports ``os``."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from contextlib import suppress

from ottla.protocol.primitives import Buffer
from ottla.storage.filesystem import Damaged, is_shortage

MAX_OPEN_FILES = 2_000
"""Default maximum number of open file descriptors."""

_PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags for opening any file. A symbolic link is not followed, because its target is not a file of the broker. Opening a pipe does
not wait for the other end of the pipe."""


_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The fcntl request of macOS that syncs a file and empties the drive's cache; fsync does not empty it there. Java's
FileChannel.force does the same."""
_HAS_DATA_SYNC = hasattr(os, "fdatasync")
"""Whether the system has fdatasync; macOS does not."""


def _sync(fd: int) -> None:
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as error:
            # Use fsync on file systems without F_FULLFSYNC, such as network file systems.
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(fd)


def _sync_data(fd: int) -> None:
    """Sync the content and the size of a file, but not its times."""
    if _HAS_DATA_SYNC:
        os.fdatasync(fd)
    else:
        _sync(fd)


class RealFile:
    """A `File` that opens its descriptor at first use, and again after the filesystem has closed the descriptor."""

    __slots__ = ("_fd", "_fs", "_has_surplus", "path", "size")

    def __init__(self, fs: RealFilesystem, path: str) -> None:
        self._fs = fs
        self._fd = -1
        self._has_surplus = False
        self.path = path
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            self.size = 0
        else:
            _check_plain(path, status)
            self.size = status.st_size

    def _open(self) -> int:
        self._fd = self._fs.opened(self)
        return self._fd

    def append(self, data: Buffer) -> None:
        fd = self._fd if self._fd >= 0 else self._open()
        if self._has_surplus:
            self.cut_surplus()
        start, total, done = self.size, len(data), 0
        try:
            done = os.pwrite(fd, data, start)
            while done < total:
                done += os.pwrite(fd, memoryview(data)[done:], start + done)
        except OSError:
            if done:
                self.take_back(start)
            raise
        self.size = start + total

    def read(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd if self._fd >= 0 else self._open(), size, offset)
        return data if len(data) == size else self._read_on(data, size, offset)

    def _read_on(self, data: bytes, size: int, offset: int) -> bytes:
        """Read the rest of a short read.

        A read is short at the end of the file, or if the operating system returns only a part. Raises `Damaged` if the file ends
        before ``self.size``.
        """
        wanted = max(min(size, self.size - offset), 0)
        while len(data) < wanted:
            more = os.pread(self._fd, wanted - len(data), offset + len(data))
            if not more:
                raise Damaged(
                    self.path, f"the file ends at byte {offset + len(data)} of {self.size}: another process has truncated it"
                )
            data += more
        return data

    def has_length(self, size: int) -> bool:
        """Whether a file of ``size`` bytes has the right length: ``self.size``, or more if it has a surplus (`take_back`)."""
        return size >= self.size if self._has_surplus else size == self.size

    def check(self) -> None:
        if self._fd < 0:
            return
        held = os.fstat(self._fd)
        if held.st_nlink == 0:
            raise Damaged(self.path, "another process has removed or replaced the file")
        if not self.has_length(held.st_size):
            raise Damaged(self.path, f"the file has {held.st_size} bytes and should have {self.size}: another process writes to it")

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd if self._fd >= 0 else self._open(), size)
        self.size = size
        self._has_surplus = False

    def take_back(self, size: int) -> None:
        self.size = size
        self._has_surplus = True
        with suppress(OSError):
            self.cut_surplus()

    def cut_surplus(self) -> None:
        if self._has_surplus:
            self.truncate(self.size)

    def sync(self) -> None:
        self.cut_surplus()
        if self.size or self._fd >= 0:
            _sync_data(self._fd if self._fd >= 0 else self._open())

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._fs.closed(self)
            os.close(fd)


def _check_plain(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a directory" if stat.S_ISDIR(status.st_mode) else "a device"
        raise Damaged(path, f"{'a pipe' if stat.S_ISFIFO(status.st_mode) else kind} was found instead of a file")


def _opened_to_sync(path: str, flags: int) -> int:
    """Open a path to sync it. Raises `FileNotFoundError`, OSError if no descriptor is left, and `Damaged` for other errors."""
    try:
        return os.open(path, os.O_RDONLY | flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_shortage(error):
            raise
        raise Damaged(path, f"cannot be opened to be synced: {error.strerror}") from error


class RealFilesystem:
    """`Filesystem` on the local disk, with a bound on open descriptors. With ``read_only`` no file is created or written."""

    def __init__(self, max_open_files: int = MAX_OPEN_FILES, *, read_only: bool = False) -> None:
        self._read_only = read_only
        # Open files in the order of opening: the file that was opened first is closed first.
        self._open_files: dict[RealFile, None] = {}
        self.max_open_files = max_open_files

    @property
    def open_files(self) -> int:
        """Number of files that are kept open."""
        return len(self._open_files)

    def opened(self, file: RealFile) -> int:
        """Open a descriptor for a file. Raises `Damaged` if the path is no longer the same file."""
        while len(self._open_files) >= self.max_open_files:
            next(iter(self._open_files)).close()
        if self._read_only:
            flags = os.O_RDONLY
        else:
            # A file that had content is never created again: an append at its old length would fill the new file with zeros.
            flags = os.O_RDWR | (0 if file.size else os.O_CREAT)
        try:
            fd = self._descriptor(file.path, flags)
        except FileNotFoundError as error:
            if file.size and not self._read_only:
                raise Damaged(file.path, "another process has removed the file") from error
            raise
        try:
            status = os.fstat(fd)
            _check_plain(file.path, status)
            if not self._read_only and not file.has_length(status.st_size):
                raise Damaged(
                    file.path, f"the file has {status.st_size} bytes and should have {file.size}: another process writes to it"
                )
        except OSError:
            os.close(fd)
            raise
        self._open_files[file] = None
        return fd

    def _descriptor(self, path: str, flags: int) -> int:
        """Open a path. While no descriptor is left, close cached files one by one and retry."""
        while True:
            try:
                return os.open(path, flags | _PLAIN, 0o644)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise Damaged(path, "a symbolic link was found instead of a file") from error
                if not is_shortage(error) or not self._open_files:
                    raise
                next(iter(self._open_files)).close()

    def closed(self, file: RealFile) -> None:
        self._open_files.pop(file, None)

    def close_files(self) -> None:
        for file in list(self._open_files):
            file.close()

    def open(self, path: str) -> RealFile:
        return RealFile(self, path)

    def read_file(self, path: str) -> bytes | None:
        try:
            fd = self._descriptor(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            _check_plain(path, os.fstat(fd))
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)

    def write_file(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        try:
            with open(self._descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            # A half-written file must not occupy the last free bytes of a full disk.
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def spare_descriptors(self, count: int) -> None:
        for file in list(self._open_files)[:count]:
            file.close()

    def sync_file(self, path: str) -> None:
        fd = _opened_to_sync(path, _PLAIN)
        try:
            _sync(fd)
        finally:
            os.close(fd)

    def sync_dir(self, path: str) -> None:
        for directory in (path, os.path.dirname(path)):
            fd = _opened_to_sync(directory or ".", os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _sync(fd)
            finally:
                os.close(fd)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def is_dir(self, path: str) -> bool | None:
        try:
            return stat.S_ISDIR(os.lstat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_dir(self, path: str) -> None:
        if os.path.islink(path):
            # Remove only the symbolic link, because its target is not a directory of the broker.
            os.unlink(path)
        else:
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
        fd = self._descriptor(path, os.O_RDWR | os.O_CREAT)
        try:
            _check_plain(path, os.fstat(fd))
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except Damaged:
            os.close(fd)
            raise
        except OSError:
            os.close(fd)
            return None
        return fd

    def holds(self, lock: object, path: str) -> bool:
        assert isinstance(lock, int)
        try:
            return os.path.samestat(os.fstat(lock), os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

    def unlock(self, lock: object) -> None:
        if isinstance(lock, int):
            os.close(lock)
