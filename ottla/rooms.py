"""Finds the broker's rooms and puts them in front of this process' import path.

Installed, they lie in ``ottla/_app``; in a checkout beside the package. Only the broker's own process calls this,
so the rooms' plain names never meet a user's.
"""

from __future__ import annotations

import sys
from pathlib import Path


def directory() -> Path:
    package = Path(__file__).resolve().parent
    installed = package / "_app"
    return installed if installed.is_dir() else package.parent


def enter() -> None:
    path = str(directory())
    if path in sys.path:
        sys.path.remove(path)
    sys.path.insert(0, path)
