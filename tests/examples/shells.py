"""Shell scripts of examples, run in a directory until they and everything that they have started end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

TIMEOUT_S = 120


def run(script: str, directory: Path, tools: Path, environment: dict[str, str]) -> str:
    """Run a script with bash as GitHub does, and return its output. Raises AssertionError if it fails."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "KAFKA_", "PYTEST"))}
    output = directory / "output.txt"
    with output.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=directory,
            env={**inherited, "PATH": f"{tools}:{os.environ['PATH']}", **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert process.wait(TIMEOUT_S) == 0, output.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(TIMEOUT_S)
    return output.read_text()
