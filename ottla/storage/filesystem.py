"""The one door to files. ``storage.real_filesystem`` is the real one; tests put others in its place."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from ottla.protocol.primitives import Buffer


class Damaged(OSError):
    """A file is not what was written to it: cut, replaced, removed, or something else than a plain file.

    Trying again does not help, as it does with a full disk. ``strerror`` is one line for a person.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EIO, f"{path}: {reason}")


class SyncFailed(OSError):
    """The operating system could not bring to the disk what it had taken.

    A later sync that succeeds says nothing about it: the system may have dropped what it could not write.
    """


HOPELESS = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, getattr(errno, "EUCLEAN", errno.EIO))
"""The disk cannot give what it has taken."""


def is_damage(error: OSError) -> bool:
    """Whether a file or the disk below it can no longer be trusted, unlike one that is full or may not be written now."""
    return error.errno in HOPELESS


def is_shortage(error: OSError) -> bool:
    """Whether no descriptor was left. Nothing was opened, so nothing was written or synced, and trying again is right."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class File(Protocol):
    """An append-only file with random reads."""

    path: str

    @property
    def size(self) -> int:
        """In bytes, and always what was acknowledged."""
        ...

    def append(self, data: Buffer) -> None:
        """Write all of ``data`` at the end, or raise OSError with the file cut back to what it was."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """``size`` bytes from ``offset``, fewer only where ``self.size`` ends. Raises `Damaged` where the file ends before."""
        ...

    def check(self) -> None:
        """Raises `Damaged` where an open file was cut, removed or replaced by somebody else."""
        ...

    def truncate(self, size: int) -> None: ...

    def take_back(self, size: int) -> None:
        """Undo appends: the file is ``size`` bytes long from now on. Never raises.

        Where the disk refuses to shorten the file, the bytes behind ``size`` are a surplus. The next append or sync cuts
        the surplus off first, and is refused as long as that fails.
        """
        ...

    def cut_surplus(self) -> None:
        """Shorten the file where an earlier cut was refused. Raises OSError as long as it is."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Filesystem(Protocol):
    """What storage asks of a disk. Paths are strings; every method may raise OSError.

    At most ``max_open_files`` are kept open; the one that was opened first gives way, and is opened again when it is needed.
    """

    max_open_files: int

    @property
    def open_files(self) -> int: ...

    def open(self, path: str) -> File:
        """A file that is there, or will be at its first append. Raises `Damaged` for what is no plain file."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole content, None where there is no such file. Raises `Damaged` for a link, a pipe, or what else is no file."""
        ...

    def write_file(self, path: str, data: Buffer) -> None:
        """Replace a file as a whole: after a crash it holds the old content or the new, never a mixture."""
        ...

    def spare_descriptors(self, count: int) -> None:
        """Close up to ``count`` files that are kept open, so that work beside the loop finds descriptors. Never raises."""
        ...

    def sync_file(self, path: str) -> None:
        """As `storage.filesystem.sync_file`, which tells the errors apart. Raises `Damaged` for what it may not open."""
        ...

    def sync_dir(self, path: str) -> None:
        """Bring a directory's entries to the disk, and that directory's own entry: files that are new stay there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""
        ...

    def is_dir(self, path: str) -> bool | None:
        """Whether a directory is there, rather than a link to one or a file; None where nothing is."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty where there is none."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; one that is there is no error."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        ...

    def remove_empty_dir(self, path: str) -> None:
        """Remove a directory in which nothing is; one that is not there is no error."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the disk that holds ``path``."""
        ...

    def absolute(self, path: str) -> str: ...

    def lock(self, path: str) -> object | None:
        """An exclusive lock, held until `unlock` or the end of the process; None when another has it."""
        ...

    def holds(self, lock: object, path: str) -> bool:
        """Whether the file that a lock is on still stands at ``path``. Never raises; where nobody can tell, it does."""
        ...

    def unlock(self, lock: object) -> None: ...


def sync_file(fs: Filesystem, path: str) -> None:
    """Bring a file to the disk. Keeps no state, so it may run beside everything else.

    Raises `FileNotFoundError`, `Damaged` where something else is in its place, OSError where no descriptor is left, and
    `SyncFailed` for everything else.
    """
    _synced(fs.sync_file, path)


def sync_dir(fs: Filesystem, path: str) -> None:
    """Bring a directory's entries, and its own, to the disk. Raises as `sync_file` does."""
    _synced(fs.sync_dir, path)


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
