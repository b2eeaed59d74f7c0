"""The `Filesystem` and `File` protocols, through which this package accesses all files.

`storage.real_filesystem` implements them; tests use other implementations.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ottla.protocol.primitives import Buffer


class Damaged(OSError):
    """A file does not have the content that was written: something else changed or removed it, or it is not a regular file.

    Unlike with a full disk, a retry does not help. ``strerror`` is one line for a person.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EIO, f"{path}: {reason}")


class SyncFailed(OSError):
    """The operating system accepted written data and then could not sync it.

    A later sync that succeeds proves nothing about that data, because the system may have dropped it.
    """


HOPELESS = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, getattr(errno, "EUCLEAN", errno.EIO))
"""Error numbers which mean that the disk cannot return data that it accepted."""


def is_damage(error: OSError) -> bool:
    """Whether an error means that the file or its disk can no longer be trusted, and not only that one write failed."""
    return error.errno in HOPELESS


def is_shortage(error: OSError) -> bool:
    """Whether an error means that no file descriptor was left. Nothing was opened, written or synced, so a retry is safe."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class File(Protocol):
    """An append-only file with random reads."""

    path: str

    @property
    def size(self) -> int:
        """The total length in bytes of all successful appends.

        After a failed append the file on disk may be longer (`take_back`).
        """
        ...

    def append(self, data: Buffer) -> None:
        """Write all of ``data`` at the end. If that fails, cut the file back to its earlier length and raise OSError."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from ``offset``, or fewer at the file's end (``self.size``).

        Raises `Damaged` if the file ends before ``self.size``.
        """
        ...

    def check(self) -> None:
        """Raise `Damaged` if another process has cut, removed or replaced an open file."""
        ...

    def truncate(self, size: int) -> None: ...

    def take_back(self, size: int) -> None:
        """Undo appends: from now on the file's length is ``size`` bytes. Never raises.

        If the file cannot be shortened, the bytes after ``size`` are a surplus. The next append or sync first cuts off the surplus,
        and raises OSError as long as that fails.
        """
        ...

    def cut_surplus(self) -> None:
        """Shorten the file if an earlier `take_back` could not. Raises OSError if that fails again."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Filesystem(Protocol):
    """The operations on files that storage needs. Paths are strings; every method may raise OSError.

    At most ``max_open_files`` files are kept open. To open more, the file that was opened first is closed; its next use opens it
    again.
    """

    max_open_files: int

    @property
    def open_files(self) -> int: ...

    def open(self, path: str) -> File:
        """Return a `File`. Its first append creates the file if necessary. Raises `Damaged` if the path is not a regular file."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """Return the file's content; None if the file does not exist.

        Raises `Damaged` if the path is a link, a pipe or a directory.
        """
        ...

    def write_file(self, path: str, data: Buffer) -> None:
        """Replace a file as a whole: after a crash the file holds the old content or the new, never a mixture."""
        ...

    def spare_descriptors(self, count: int) -> None:
        """Close up to ``count`` of the files that are kept open, so that other threads can open descriptors. Never raises."""
        ...

    def sync_file(self, path: str) -> None:
        """Sync a file to disk. Raises `Damaged` if the file may not be opened.

        Callers use the function `sync_file` of this module, which turns other errors into `SyncFailed`.
        """
        ...

    def sync_dir(self, path: str) -> None:
        """Sync a directory's entries and the directory's own entry, so that new files survive a power cut."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Remove a file. Does nothing if the file does not exist."""
        ...

    def is_dir(self, path: str) -> bool | None:
        """Whether the path is a directory, and not a file or a link to a directory; None if the path does not exist."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if the directory does not exist."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents. Does nothing if the directory exists."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove a directory with everything in it."""
        ...

    def remove_empty_dir(self, path: str) -> None:
        """Remove an empty directory. Does nothing if the directory does not exist."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Return the total and usable bytes of the disk that holds ``path``."""
        ...

    def absolute(self, path: str) -> str: ...

    def lock(self, path: str) -> object | None:
        """Take an exclusive lock, held until `unlock` or the end of the process; None if another process holds the lock."""
        ...

    def holds(self, lock: object, path: str) -> bool:
        """Whether the locked file is still at ``path``. Never raises; True if the operating system reports an error."""
        ...

    def unlock(self, lock: object) -> None: ...


def sync_file(fs: Filesystem, path: str) -> None:
    """Sync a file to disk. The function keeps no state, so it may run in any thread.

    Raises `FileNotFoundError`, `Damaged` if the path is not a file that may be opened, OSError if no descriptor is left, and
    `SyncFailed` for every other error.
    """
    _synced(fs.sync_file, path)


def sync_dir(fs: Filesystem, path: str) -> None:
    """Sync a directory's entries and the directory's own entry. Raises the same errors as `sync_file`."""
    _synced(fs.sync_dir, path)


def sync_names(fs: Filesystem, path: str) -> None:
    """Call `sync_dir`, but ignore a directory that cannot be synced.

    Some file systems cannot sync directories, and permissions may forbid opening a parent directory. Then a power cut may lose new
    files.
    """
    with suppress(SyncFailed, Damaged):
        sync_dir(fs, path)


def _synced(sync: Callable[[str], None], path: str) -> None:
    try:
        sync(path)
    except (FileNotFoundError, Damaged, SyncFailed):
        raise
    except OSError as error:
        if is_shortage(error):
            raise
        raise SyncFailed(error.errno, error.strerror or str(error), path) from error


def described(error: Exception) -> str:
    """Describe an error and its file in one line."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
