"""The one door to files. ``storage.real_filesystem`` is the real one; tests put others in its place."""

from __future__ import annotations

from typing import Protocol

from protocol.primitives import Buffer


class File(Protocol):
    """An append-only file with random reads. ``size`` is in bytes and always what was acknowledged."""

    path: str
    size: int

    def append(self, data: Buffer) -> None:
        """Write all of ``data`` at the end, or raise OSError with the file cut back to what it was."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes from ``offset``; short only at the end."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Filesystem(Protocol):
    """What storage asks of a disk. Paths are strings; every method may raise OSError."""

    def open(self, path: str) -> File: ...

    def read_file(self, path: str) -> bytes | None:
        """The whole content, None where there is no such file."""
        ...

    def write_file(self, path: str, data: Buffer) -> None:
        """Replace a file as a whole: after a crash it holds the old content or the new, never a mixture."""
        ...

    def sync_file(self, path: str) -> None:
        """Bring a file to the disk. Keeps no state, so it may run beside everything else."""
        ...

    def sync_dir(self, path: str) -> None:
        """Bring a directory's entries to the disk, and that directory's own entry: files that are new stay there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""
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

    def unlock(self, lock: object) -> None: ...
