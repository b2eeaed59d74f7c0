"""PYTHONPATH for processes that start in another directory than this one.

Python makes relative entries absolute in the directory in which it was started. That directory is the one in which this module was
imported, unless the program changed it before: so the handles and the pytest plugin import this module at once.
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
    """The value of PYTHONPATH with absolute entries. A value that was set after the import is returned as it is."""
    if entries != _AT_THE_IMPORT:
        return entries
    return os.pathsep.join(str(_IMPORTED_IN / entry) for entry in entries.split(os.pathsep))
