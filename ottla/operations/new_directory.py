"""A directory that appears as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ottla.storage.filesystem import Filesystem, sync_names


@contextmanager
def new_directory(fs: Filesystem, target: str) -> Iterator[str]:
    """Give the path of an empty directory, which gets the name ``target`` at the end of the block.

    An error in the block, or Ctrl-C, removes it. ``target`` must not exist or be empty. The caller syncs what it writes. Raises
    OSError.
    """
    growing = f"{target.rstrip('/')}.partial"
    if fs.list_dir(growing):
        fs.remove_dir(growing)
    try:
        fs.make_dir(growing)
        yield growing
        if not fs.list_dir(target):
            fs.remove_empty_dir(target)
        fs.rename(growing, target)
        sync_names(fs, target)
    except BaseException:
        # What is incomplete may have used the last free bytes of the disk.
        with suppress(OSError):
            fs.remove_dir(growing)
        raise
