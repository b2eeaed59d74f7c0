"""Libraries of other languages, which tests install from their package registries into the cache."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tools import fetching
from tools.kafka import Unavailable, cache_dir

FETCH_TIMEOUT_S = 300


def fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    """Return the folder ``name`` of the cache. The first call fills it. Raises `Unavailable` if ``fetch`` fails."""
    target = cache_dir() / name
    if not (target / "complete").exists():
        target.mkdir(parents=True, exist_ok=True)
        try:
            fetch(target)
        except (fetching.FetchingFailed, subprocess.SubprocessError, OSError) as failed:
            raise Unavailable(f"cannot fetch {name}: {failed}") from failed
        (target / "complete").touch()
    return target


def run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        raise fetching.FetchingFailed(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def node_package(name: str, package: str) -> Path:
    """Return the folder ``node_modules`` with a package of npm. Raises `Unavailable` without Node or npm."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Unavailable("no Node on the PATH")
    install = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", package)
    return fetched(name, lambda target: run(*install, cwd=target)) / "node_modules"
