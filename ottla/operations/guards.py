"""What must hold of a directory before anything works on it: no broker has it open, and its logs are plain files."""

from __future__ import annotations

import contextlib
import fcntl
import stat
from collections.abc import Iterator
from pathlib import Path

from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.names import parse_directory_name
from ottla.storage.segment import LOG_SUFFIX


@contextlib.contextmanager
def locked_for_writing(fs: Filesystem, directory: str) -> Iterator[None]:
    """Holds the lock that a broker takes on its directory. A directory that is empty, or is not there, is not locked.

    Raises `DirectoryError` where a broker has the lock.
    """
    if not fs.list_dir(directory):
        yield
        return
    lock = fs.lock(f"{directory}/{LOCK_FILE}")
    if lock is None:
        raise DirectoryError(f"{directory} is in use by a broker; stop it first")
    try:
        yield
    finally:
        fs.unlock(lock)


@contextlib.contextmanager
def locked_for_reading(directory: str) -> Iterator[None]:
    """Holds shared locks, so that no broker begins to write into the directory. Nothing is written here, not even a lock file.

    A broker holds its lock for as long as it runs. Raises `DirectoryError` where one has it.
    """
    lock = Path(directory, LOCK_FILE)
    if not lock.exists():
        yield
        return
    if not lock.is_file():
        raise DirectoryError(f"{lock} is no plain file; move it away, or audit a copy")
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Apache Kafka takes a POSIX record lock, which flock does not meet.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryError(f"{directory} is in use by a broker; stop it first, or audit a copy") from None
        yield


def check_plain_logs(directory: str) -> None:
    """Raises `DirectoryError` where a log is no plain file: a pipe would never end, and a link may lead anywhere."""
    for partition in Path(directory).iterdir():
        if parse_directory_name(partition.name) is None:
            continue
        for path in partition.glob("*" + LOG_SUFFIX):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise DirectoryError(f"{path} is no plain file; a log is never a link, a pipe or a directory")
