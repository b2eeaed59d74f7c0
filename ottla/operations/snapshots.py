"""Copies and empties whole data directories whose broker does not run. For tests that start from an earlier state."""

from __future__ import annotations

from ottla.operations.copying import copy
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import META_FILE, DirectoryError
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.names import DELETED_NAME, STRAY_SUFFIX, parse_directory_name

CHECKPOINT_SUFFIX = "-checkpoint"
"""The ending of the names of all checkpoints, Kafka's and ottla's."""


def _broker_names(fs: Filesystem, directory: str) -> list[str]:
    """The names that a broker has created in its directory, except the lock. Other names are left alone."""

    def is_brokers(name: str) -> bool:
        if name in (CLEAN_FILE, META_FILE) or name.endswith(CHECKPOINT_SUFFIX):
            return True
        return parse_directory_name(name) is not None or bool(DELETED_NAME.fullmatch(name)) or name.endswith(STRAY_SUFFIX)

    # The mark of a clean stop comes first, so that a directory that was copied or removed in part never looks complete.
    return sorted(filter(is_brokers, fs.list_dir(directory)), key=lambda name: (name != CLEAN_FILE, name))


def wipe(fs: Filesystem, directory: str) -> None:
    """Remove everything that a broker has created in a directory, except the lock, which the caller may hold. Raises OSError."""
    for name in _broker_names(fs, directory):
        path = f"{directory}/{name}"
        if fs.is_dir(path):
            fs.remove_dir(path)
        else:
            fs.unlink(path)


def copy_directory(fs: Filesystem, source: str, target: str) -> None:
    """Copy everything that a broker has created in ``source`` to ``target``, the mark of a clean stop last.

    Nothing is synced, because the copy need not survive a power cut. Raises OSError.
    """
    fs.make_dir(target)
    for name in reversed(_broker_names(fs, source)):
        path = f"{source}/{name}"
        if fs.is_dir(path):
            fs.make_dir(f"{target}/{name}")
            for file in fs.list_dir(path):
                _copy_file(fs, f"{path}/{file}", f"{target}/{name}/{file}")
        else:
            _copy_file(fs, path, f"{target}/{name}")


def _copy_file(fs: Filesystem, source: str, target: str) -> None:
    for _ in copy(fs, source, target, is_synced=False):
        pass


def check_snapshot(fs: Filesystem, source: str) -> None:
    """Raises `DirectoryError` for a directory that is not a copy of a clean stop."""
    names = fs.list_dir(source)
    if META_FILE not in names or CLEAN_FILE not in names:
        raise DirectoryError(f"{source} is no snapshot of a broker")
