"""Replaces all data in a data directory, so that a crash leaves either the old data or the new data.

The new data is built in a subdirectory, and then moved to its place by renames. The data directory itself cannot be renamed: it
contains the lock, and it may be a mount point or contain files of other programs. The next start completes or undoes an interrupted
replacement (`finish_replacement`), according to the name of the directory that contains the new data:

- ``incoming``: the old data is in the data directory or already in ``outgoing``. A starting broker moves the old data back.
- ``arriving``: all old data is in ``outgoing``. A starting broker moves the rest of the new data into the data directory.
- ``rejected``: the broker could not start on the new data. A restarted broker moves the new data out and the old data back.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import suppress

from ottla.storage.filesystem import Filesystem, sync_names
from ottla.storage.identity import META_FILE, DirectoryError
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.names import DELETED_NAME, STRAY_SUFFIX, parse_directory_name

REPLACEMENT_DIRECTORY = ".ottla-replacement"
CHECKPOINT_SUFFIX = "-checkpoint"
"""Suffix of the names of all checkpoints, Kafka's and ottla's."""


def is_broker_data(name: str) -> bool:
    """Whether a file or directory of this name in a data directory was created by a broker. The lock does not count."""
    if name in (CLEAN_FILE, META_FILE) or name.endswith(CHECKPOINT_SUFFIX):
        return True
    return parse_directory_name(name) is not None or bool(DELETED_NAME.fullmatch(name)) or name.endswith(STRAY_SUFFIX)


def finish_replacement(fs: Filesystem, directory: str) -> None:
    """Complete or undo a replacement that a crash interrupted. The caller holds the directory's lock. Raises OSError."""
    base = f"{directory}/{REPLACEMENT_DIRECTORY}"
    if not fs.is_dir(base):
        return
    if fs.is_dir(f"{base}/rejected"):
        _move_data(fs, directory, f"{base}/rejected")
        sync_names(fs, f"{base}/rejected")
        sync_names(fs, directory)
        fs.rename(f"{base}/rejected", f"{base}/incoming")
        sync_names(fs, base)
    if fs.is_dir(f"{base}/incoming"):
        _move_data(fs, f"{base}/outgoing", directory)
    elif fs.is_dir(f"{base}/arriving"):
        _move_data(fs, f"{base}/arriving", directory)
    sync_names(fs, directory)
    with suppress(OSError):
        # The data in this directory is no longer needed, and the next start retries its removal.
        fs.remove_dir(base)


def check_not_replacing(fs: Filesystem, directory: str) -> None:
    """Raise `DirectoryError` if a replacement was interrupted, because the directory may contain only a part of its data."""
    if fs.is_dir(f"{directory}/{REPLACEMENT_DIRECTORY}"):
        raise DirectoryError(f"a reset or restore of {directory} was interrupted; start ottla serve on it once to complete it")


class Replacement:
    """One replacement of a directory's data. Call `build`, `exchange`, and then `complete` or `undo`.

    The caller holds the directory's lock, and after `build` no broker uses the directory. With ``is_synced`` each step is synced
    before the next step, so that a power cut, too, leaves the old or the new data.
    """

    def __init__(self, fs: Filesystem, directory: str, *, is_synced: bool) -> None:
        self._fs = fs
        self._directory = directory
        self._base = f"{directory}/{REPLACEMENT_DIRECTORY}"
        self._is_synced = is_synced

    def build(self, fill: Callable[[str], None]) -> None:
        """Have ``fill`` create the new data in the directory passed to it. If that fails, the new data is removed.

        ``fill`` syncs the files that it creates. Files whose names `is_broker_data` does not know are lost. Raises OSError, and the
        errors of ``fill``.
        """
        fs, incoming = self._fs, f"{self._base}/incoming"
        if fs.is_dir(self._base):
            # An earlier attempt could not remove this directory, whose data is no longer needed.
            fs.remove_dir(self._base)
        try:
            fs.make_dir(incoming)
            fs.make_dir(f"{self._base}/outgoing")
            fill(incoming)
            self._sync(incoming, self._base)
        except Exception:
            with suppress(OSError):
                fs.remove_dir(self._base)
            raise

    def exchange(self) -> None:
        """Move the old data out of the directory, and the new data in. Raises OSError; the caller must then call `undo`."""
        fs, base = self._fs, self._base
        _move_data(fs, self._directory, f"{base}/outgoing")
        self._sync(f"{base}/outgoing", self._directory)
        fs.rename(f"{base}/incoming", f"{base}/arriving")
        self._sync(base)
        _move_data(fs, f"{base}/arriving", self._directory)
        self._sync(f"{base}/arriving", self._directory)

    def undo(self) -> None:
        """Put the old data back, even if a broker has already started on the new data. Raises OSError."""
        if self._fs.is_dir(f"{self._base}/arriving"):
            self._fs.rename(f"{self._base}/arriving", f"{self._base}/rejected")
            self._sync(self._base)
        finish_replacement(self._fs, self._directory)

    def complete(self) -> None:
        """Remove the old data. Never raises OSError: the next start retries a failed removal."""
        with suppress(OSError):
            self._fs.remove_dir(self._base)

    def _sync(self, *directories: str) -> None:
        if self._is_synced:
            for directory in directories:
                sync_names(self._fs, directory)


def _move_data(fs: Filesystem, source: str, target: str) -> None:
    move_names(fs, source, target, list(filter(is_broker_data, fs.list_dir(source))))


def move_names(fs: Filesystem, source: str, target: str, names: Iterable[str]) -> None:
    """Move files and directories to another directory of the same file system. Raises OSError; a second call continues."""
    for name in names:
        old, new = f"{source}/{name}", f"{target}/{name}"
        try:
            fs.rename(old, new)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST) or not fs.is_dir(old):
                raise
            # Overlay file systems refuse to rename a directory of a container's image, but not the files in it. A crash between
            # these renames leaves the directory in both places.
            fs.make_dir(new)
            move_names(fs, old, new, fs.list_dir(old))
            fs.remove_empty_dir(old)
