"""Checks of a directory before an operation: no broker has it open, and its logs are regular files."""

from __future__ import annotations

import contextlib
import fcntl
import stat
from collections.abc import Iterator
from pathlib import Path

from ottla.storage.filesystem import Filesystem
from ottla.storage.growth import check_not_growing
from ottla.storage.identity import DirectoryError
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.names import parse_directory_name
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.replacement import check_not_replacing
from ottla.storage.segment import LOG_SUFFIX


@contextlib.contextmanager
def locked(fs: Filesystem, directory: str) -> Iterator[None]:
    """Hold the lock that a broker takes on its directory. Creates the directory if it does not exist.

    Raises `DirectoryError` if a broker, or another command that works on the directory, holds the lock.
    """
    if Path(directory).exists() and not Path(directory).is_dir():
        raise DirectoryError(f"{directory} is not a directory; give another one")
    fs.make_dir(directory)
    lock = fs.lock(f"{directory}/{LOCK_FILE}")
    if lock is None:
        raise DirectoryError(f"{directory} is in use by a broker or another command; stop it, or wait for it")
    try:
        yield
    finally:
        fs.unlock(lock)


@contextlib.contextmanager
def locked_for_writing(fs: Filesystem, directory: str) -> Iterator[None]:
    """Hold the lock as `locked` does. Raises `DirectoryError` also if a reset, a restore or a growth was interrupted."""
    with locked(fs, directory):
        _check_whole(fs, directory)
        yield


@contextlib.contextmanager
def locked_for_reading(directory: str) -> Iterator[None]:
    """Hold shared locks, so that no broker starts to write to the directory. Nothing is written, not even a lock file.

    Raises `DirectoryError` if a broker is running on the directory, and if a reset, a restore or a growth was interrupted.
    """
    fs, lock = RealFilesystem(read_only=True), Path(directory, LOCK_FILE)
    if not lock.exists():
        _check_whole(fs, directory)
        yield
        return
    if not lock.is_file():
        raise DirectoryError(f"{lock} is not a regular file; move it away, or work on a copy")
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Apache Kafka takes a POSIX record lock, which does not conflict with flock.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryError(f"{directory} is in use by a broker; stop it first, or work on a copy") from None
        _check_whole(fs, directory)
        yield


def _check_whole(fs: Filesystem, directory: str) -> None:
    check_not_replacing(fs, directory)
    check_not_growing(fs, directory)


def check_apart(source: str, target: str) -> None:
    """Raise `DirectoryError` if one directory is inside the other, because the operation would read its own output."""
    here, there = Path(source).resolve(), Path(target).resolve()
    if here == there or here in there.parents or there in here.parents:
        raise DirectoryError(f"{source} and {target} are the same directory, or one is inside the other; give a directory outside")


def log_dir_of(source: str) -> str:
    """Return the directory whose lock protects ``source``, which is a log directory or a single partition's directory in it."""
    path = Path(source).resolve()
    return str(path.parent if parse_directory_name(path.name) is not None and any(path.glob("*" + LOG_SUFFIX)) else path)


def check_plain_logs(directory: str) -> None:
    """Raise `DirectoryError` if a log is not a regular file: a pipe would never end, and a link may lead anywhere."""
    for partition in Path(directory).iterdir():
        if parse_directory_name(partition.name) is None:
            continue
        for path in partition.glob("*" + LOG_SUFFIX):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise DirectoryError(f"{path} is not a regular file; a log is never a link, a pipe or a directory")
