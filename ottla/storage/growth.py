"""The progress of turning one broker's directory into that of a cluster (``ottla cluster grow``).

The work is done in `GROWTH_DIRECTORY`, in the broker's directory. The name of the subdirectory that contains the nodes' directories
records the progress:

- ``partial``: the new directories are being written. The broker's data has not moved, and a starting broker ignores the directory.
- ``gathering``: the new directories are complete. The broker's data is being moved into the directory of broker 1.
- ``placing``: the nodes' directories are complete. They are being moved into the broker's directory.

In the last two states the directory lacks a part of its data, so no broker may start on it. The command completes the growth.
"""

from __future__ import annotations

from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError

GROWTH_DIRECTORY = ".ottla-growth"
PARTIAL, GATHERING, PLACING = "partial", "gathering", "placing"


def is_growing(fs: Filesystem, directory: str) -> bool:
    """Whether ``ottla cluster grow`` has begun to move the directory's data and is not complete."""
    return any(fs.is_dir(f"{directory}/{GROWTH_DIRECTORY}/{stage}") for stage in (GATHERING, PLACING))


def check_not_growing(fs: Filesystem, directory: str) -> None:
    """Raise `DirectoryError` if ``ottla cluster grow`` was interrupted in the directory."""
    if is_growing(fs, directory):
        raise DirectoryError(f"ottla cluster grow was interrupted while it converted {directory}; run the command again")
