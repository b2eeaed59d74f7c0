"""How far the directory of one broker is on its way to that of a cluster (``ottla cluster grow``).

The work is done in `GROWTH_DIRECTORY`, below the broker's directory. The name of the directory that holds the nodes' directories
there is the record on the disk of what is done:

- ``partial``: the new directories are being written. The broker's data is where it was, and a start does not care.
- ``gathering``: the new directories are whole. The broker's data moves into that of broker 1.
- ``placing``: the nodes' directories are whole. They move into the directory.

In the last two no broker may start on the directory, because it holds a part of its data only. The command completes them.
"""

from __future__ import annotations

from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError

GROWTH_DIRECTORY = ".ottla-growth"
PARTIAL, GATHERING, PLACING = "partial", "gathering", "placing"


def is_growing(fs: Filesystem, directory: str) -> bool:
    """Whether a growth has begun to move data, and was interrupted or is under way."""
    return any(fs.is_dir(f"{directory}/{GROWTH_DIRECTORY}/{stage}") for stage in (GATHERING, PLACING))


def check_not_growing(fs: Filesystem, directory: str) -> None:
    """Raises `DirectoryError` where a growth was interrupted."""
    if is_growing(fs, directory):
        raise DirectoryError(
            f"{directory} was on its way to a cluster's directory when ottla cluster grow was interrupted; run that again"
        )
