"""`Filesystem`, the only way from this package to files. `storage.real_filesystem` is the real one; tests use others."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ottla.protocol.primitives import Buffer


class Damaged(OSError):
    """A file does not hold what was written to it: something else has cut, replaced or removed it, or it is not a plain file.

    Unlike with a full disk, trying again does not help. ``strerror`` is one line for a person.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EIO, f"{path}: {reason}")


class SyncFailed(OSError):
    """The operating system accepted written data and then could not bring the data to the disk.

    A later sync that succeeds proves nothing about that data: the system may have dropped what it could not write.
    """


HOPELESS = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, getattr(errno, "EUCLEAN", errno.EIO))
"""Error numbers that mean that the disk cannot return data that it has accepted."""


def is_damage(error: OSError) -> bool:
    """Whether an error means that the file or its disk can no longer be trusted, and not only that a write is refused now."""
    return error.errno in HOPELESS


def is_shortage(error: OSError) -> bool:
    """Whether an error means that no file descriptor was left. Nothing was opened, written or synced, so a retry is safe."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class File(Protocol):
    """An append-only file with random reads."""

    path: str

    @property
    def size(self) -> int:
        """The length in bytes of all appends that succeeded. The file on disk may be longer, see `take_back`."""
        ...

    def append(self, data: Buffer) -> None:
        """Write all of ``data`` at the end. Where that fails, cut the file back to its earlier length and raise OSError."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """``size`` bytes from byte ``offset`` on, fewer only at ``self.size``. Raises `Damaged` where the file ends before that."""
        ...

    def check(self) -> None:
        """Raises `Damaged` where another process has cut, removed or replaced an open file."""
        ...

    def truncate(self, size: int) -> None: ...

    def take_back(self, size: int) -> None:
        """Undo appends: the file counts as ``size`` bytes long from now on. Never raises.

        Where the disk refuses to shorten the file, the bytes behind ``size`` are a surplus. The next append or sync cuts
        the surplus off first, and raises OSError as long as that fails.
        """
        ...

    def cut_surplus(self) -> None:
        """Shorten the file where the disk refused an earlier `take_back`. Raises OSError where the disk still refuses."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Filesystem(Protocol):
    """The operations on files that storage needs. Paths are strings; every method may raise OSError.

    At most ``max_open_files`` files are kept open. Beyond that the file that was opened first is closed, and is opened again
    at its next use.
    """

    max_open_files: int

    @property
    def open_files(self) -> int: ...

    def open(self, path: str) -> File:
        """A file that exists, or that its first append creates. Raises `Damaged` where the path is not a plain file."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole content; None where there is no such file. Raises `Damaged` where the path is a link, a pipe, a directory."""
        ...

    def write_file(self, path: str, data: Buffer) -> None:
        """Replace a file as a whole: after a crash the file holds the old content or the new, never a mixture."""
        ...

    def spare_descriptors(self, count: int) -> None:
        """Close up to ``count`` of the files that are kept open, so that other threads find free descriptors. Never raises."""
        ...

    def sync_file(self, path: str) -> None:
        """Bring a file to the disk. Raises `Damaged` where the file may not be opened.

        Callers use the function `sync_file` of this module, which turns other errors into `SyncFailed`.
        """
        ...

    def sync_dir(self, path: str) -> None:
        """Bring a directory's entries and the directory's own entry to the disk, so that new files survive a power cut."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Remove a file; a file that does not exist is no error."""
        ...

    def is_dir(self, path: str) -> bool | None:
        """Whether the path is a directory, and not a file or a link to a directory; None where nothing is at the path."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty where the directory does not exist."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; a directory that exists already is no error."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove a directory with everything in it."""
        ...

    def remove_empty_dir(self, path: str) -> None:
        """Remove an empty directory; a directory that does not exist is no error."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the disk that holds ``path``."""
        ...

    def absolute(self, path: str) -> str: ...

    def lock(self, path: str) -> object | None:
        """Take an exclusive lock, held until `unlock` or the end of the process; None where another process holds the lock."""
        ...

    def holds(self, lock: object, path: str) -> bool:
        """Whether the locked file still stands at ``path``. Never raises; True where the operating system cannot say."""
        ...

    def unlock(self, lock: object) -> None: ...


def sync_file(fs: Filesystem, path: str) -> None:
    """Bring a file to the disk. The function keeps no state, so that it may run in any thread.

    Raises `FileNotFoundError`, `Damaged` where the path is not a file that may be opened, OSError where no descriptor is left,
    and `SyncFailed` for every other error.
    """
    _synced(fs.sync_file, path)


def sync_dir(fs: Filesystem, path: str) -> None:
    """Bring a directory's entries and the directory's own entry to the disk. Raises the same errors as `sync_file`."""
    _synced(fs.sync_dir, path)


def sync_names(fs: Filesystem, path: str) -> None:
    """`sync_dir`, except that a directory that cannot be synced is no error.

    Some file systems cannot sync directories, and some parent directories may not be opened. There a power cut may also lose any
    new file.
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
    """One line that says what went wrong and with which file."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
