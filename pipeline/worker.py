"""What a Python worker of Spark does once before its first task of ours."""

from __future__ import annotations

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Drop the finders of archives; Python makes them again where an import wants one.

    Spark has Python look anew at all it knows before each task (``importlib.invalidate_caches``), and an archive's directory is
    then read again for every package in it: 0.15 s a task.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
