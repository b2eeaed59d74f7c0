"""PYTHONPATH for processes that start in another directory than this process.

Relative entries are relative to the directory in which Python was started. This module records that directory when it is imported,
so `Broker`, `Cluster` and the pytest plugin import the module before the program can change the directory.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    _IMPORTED_IN = Path.cwd()
except FileNotFoundError:
    # The working directory was removed.
    _IMPORTED_IN = Path("/")
_AT_THE_IMPORT = os.environ.get("PYTHONPATH", "")


def absolute_python_path(entries: str) -> str:
    """Make the entries of PYTHONPATH absolute. A value that the program has changed since the import is returned unchanged."""
    if entries != _AT_THE_IMPORT:
        return entries
    return os.pathsep.join(str(_IMPORTED_IN / entry) for entry in entries.split(os.pathsep))
