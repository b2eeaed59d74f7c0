"""Builds the Go programs that run Go clients, with the installed Go and modules from the Go proxy. Programs are cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tools.kafka import Unavailable, cache_dir

BUILD_TIMEOUT_S = 600


def built(source: Path) -> Path:
    """Build the program of a module's folder, unless it is cached for exactly these files. Raises `Unavailable`."""
    files = sorted(path for path in source.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)).hexdigest()[:16]
    program = cache_dir() / "go" / f"{source.name}-{digest}"
    if program.exists():
        return program
    launcher = shutil.which("go")
    if launcher is None:
        raise Unavailable("no Go on the PATH, which builds programs with franz-go")
    program.parent.mkdir(parents=True, exist_ok=True)
    with program.with_suffix(".lock").open("w") as lock:
        # Without a lock, each process of a test run would compile all packages at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(launcher, source, program)
    return program


def _build(launcher: str, source: Path, program: Path) -> None:
    # Build under a temporary name, so that an interrupted build leaves no incomplete program.
    unfinished = program.with_suffix(f".{os.getpid()}")
    try:
        done = subprocess.run(
            [launcher, "build", "-trimpath", "-buildvcs=false", "-o", str(unfinished), "."],
            cwd=source,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"go build took longer than {BUILD_TIMEOUT_S} s") from late
    if done.returncode:
        raise Unavailable(f"go build failed:\n{done.stderr[-2000:]}")
    unfinished.rename(program)
