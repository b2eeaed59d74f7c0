"""Creates a directory atomically."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ottla.storage.filesystem import Filesystem, sync_names


@contextmanager
def new_directory(fs: Filesystem, target: str) -> Iterator[str]:
    """Yield the path of an empty directory, which is renamed to ``target`` at the end of the block.

    An error in the block, or Ctrl-C, removes the directory. ``target`` must be missing or empty. The caller must sync the files.
    Raises OSError.
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
        # Remove the incomplete directory, which may have used the last free bytes of the disk.
        with suppress(OSError):
            fs.remove_dir(growing)
        raise
