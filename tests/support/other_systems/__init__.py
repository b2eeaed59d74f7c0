"""Directories for PYTHONPATH that remove functions from Python on Linux, as on Windows or macOS.

Python imports their ``sitecustomize`` at its start. Functions that the standard library needs on Linux are not removed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WINDOWS, MACOS = HERE / "windows", HERE / "macos"
IS_WINDOWS = os.name == "nt"
"""On Windows itself nothing is removed, so that tests show its real behaviour."""


def environment(system: Path) -> dict[str, str]:
    """Return environment variables for a Python process as on this operating system."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "OTTLA_", "PYTEST_"))}
    paths = [ROOT] if IS_WINDOWS else [system, ROOT]
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": ""}


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
