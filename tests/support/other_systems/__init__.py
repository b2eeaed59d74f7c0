"""Directories that remove from Python on Linux what another system lacks, in every process with such a directory in PYTHONPATH.

Python imports ``sitecustomize`` at its start. What the standard library itself needs on Linux stays.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WINDOWS, MACOS = HERE / "windows", HERE / "macos"
IS_WINDOWS = os.name == "nt"
"""On Windows itself nothing is removed: the same tests show how Windows behaves."""


def environment(system: Path) -> dict[str, str]:
    """Return the environment of a process on another system."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "OTTLA_", "PYTEST_"))}
    paths = [ROOT] if IS_WINDOWS else [system, ROOT]
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": ""}


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
