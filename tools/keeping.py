"""Ends the processes that a test run has started, even if the run is killed.

A run has a directory, `$ORACLE_RUN`, and its first process holds a lock on a file there. Every guarded process stores its process
id and last argument in the directory. A keeper process (``python -m tools.keeping DIRECTORY``) waits for the lock, which the
operating system releases when the run ends, then kills the remaining processes and removes the directory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

VARIABLE = "ORACLE_RUN"
END_TIMEOUT_S = 60.0
"""Timeout, in seconds, for the keeper to clean up at the end of a run."""
PAUSE_S = 0.05
_LOCK, _KEEPER, _PROCESSES = "run.lock", "keeper.pid", "processes"


class Run:
    """A run that this process has begun. Child processes belong to the run by the environment variable `VARIABLE`."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="ottla-run-"))
        (self.directory / _PROCESSES).mkdir()
        self._lock: IO[str] = (self.directory / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @classmethod
    def begun(cls) -> Self | None:
        if os.environ.get(VARIABLE):
            return None
        run = cls()
        os.environ[VARIABLE] = str(run.directory)
        return run

    def end(self) -> None:
        """Let the keeper kill the remaining processes, and wait for the keeper."""
        del os.environ[VARIABLE]
        self._lock.close()
        if not (self.directory / _KEEPER).exists():
            shutil.rmtree(self.directory)
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.directory.exists() and time.monotonic() < deadline:
            time.sleep(PAUSE_S)


def current() -> Path | None:
    """Return the directory of this process's run; None outside of a run."""
    directory = os.environ.get(VARIABLE)
    return Path(directory) if directory else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that only one process of the run can hold."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def guarded(command: list[str]) -> list[str]:
    """Wrap a command so that its process ends with the run. Outside of a run it is returned unchanged."""
    directory = current()
    if directory is None:
        return command
    with locked(directory / "keeper.lock"):
        if not (directory / _KEEPER).exists():
            keeper = subprocess.Popen(
                [sys.executable, "-m", "tools.keeping", str(directory)],
                cwd=Path(__file__).parent.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            (directory / _KEEPER).write_text(str(keeper.pid))
            # The keeper outlives this process. An exit code prevents Python's warning about a running child.
            keeper.returncode = 0
    # The shell stores its process id and then replaces itself by the program, which keeps the id.
    note = 'last=$1; shift; printf %s "$last" >"$0/$$" && exec "$@"'
    return ["sh", "-c", note, str(directory / _PROCESSES), command[-1], *command]


def ended(pid: int) -> None:
    """Forget a guarded process that has ended, because its id may be assigned again."""
    directory = current()
    if directory is not None:
        (directory / _PROCESSES / str(pid)).unlink(missing_ok=True)


def keep(directory: Path) -> None:
    """Wait for the end of the run, and clean up."""
    with suppress(FileNotFoundError), (directory / _LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    # The second pass finds processes that were started while the run ended.
    for _ in range(2):
        for entry in list((directory / _PROCESSES).iterdir()):
            _kill(int(entry.name), entry.read_text())
            entry.unlink()
        time.sleep(PAUSE_S)
    shutil.rmtree(directory, ignore_errors=True)


def _kill(pid: int, last_argument: str) -> None:
    """Kill a process, unless its last argument differs, which means that the process id was assigned again."""
    running = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    if running.rstrip().endswith(last_argument):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
