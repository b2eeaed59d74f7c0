"""A child process that runs ``ottla serve``, with its output, logs and exit."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ottla.client.real_time import monotonic_s
from ottla.testing.python_path import absolute_python_path

KEPT_LOG_LINES = 10_000
CHUNK_BYTES = 1 << 16
"""Size of a read from a pipe, in bytes."""
CLOSE_TIMEOUT_S = 10.0
"""Timeout, in seconds, for reading the remaining output of a process that has ended."""
LONGEST_PAUSE_S = 0.02
"""Longest pause, in seconds, between two checks whether a process has ended."""
NOT_INHERITED = ("KAFKA_", "OTTLA_", "PYTEST_")
"""Prefixes of environment variables that are not passed to the process, because they are for another broker or for the test.
PYTEST_CURRENT_TEST contains the test's id, and Linux starts no process with a variable above 128 KiB."""


SAFE_PATH = ("-P",)
"""Removes the working directory from Python's import path, where a user's ``queue.py`` would replace Python's. PYTHONPATH,
installed packages and editable installs still work."""


def data_directory(path: str | Path | None, otherwise: Path) -> Path:
    """Return a data directory as absolute path, so that the program may change its working directory. Raises ValueError."""
    if path is None:
        return otherwise
    directory = Path(path).absolute()
    # Kafka's log.dirs is a comma-separated list whose items are trimmed.
    if "," in str(directory):
        raise ValueError(f"data_dir: {str(path)!r} contains a comma, which separates directories in log.dirs; choose another path")
    if str(directory) != str(directory).rstrip():
        raise ValueError(f"data_dir: {str(path)!r} ends with white space, which log.dirs cannot contain; choose another path")
    return directory


def setting_arguments(settings: Mapping[str, object], features: Mapping[str, int]) -> list[str]:
    """Format settings and feature levels as arguments of ``ottla serve``. Values may be texts, numbers and booleans."""
    arguments = []
    for key, value in settings.items():
        arguments += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    for name, level in features.items():
        arguments += ["--feature", f"{name}={level}"]
    return arguments


def new_directory() -> Path:
    """Return the path of a new temporary directory, without creating it. TMPDIR is not used if it contains a comma, because commas
    separate directories in ``log.dirs``."""
    configured = Path(tempfile.gettempdir()).absolute()
    parent = configured if "," not in str(configured) else Path("/tmp")
    return parent / f"ottla-{uuid.uuid4().hex[:12]}"


def remove_directory(directory: Path, pid: int) -> None:
    """Remove a directory that process ``pid`` owns. Does nothing in a forked process, which only has a copy of the `Broker` or
    `Cluster` object."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)


class ServedProcess:
    """A child process, which may be started again after its end. A thread calls ``on_event`` with each JSON line of its stdout.

    Only the process that created this object can control the child. In a forked process a copy of the object can only check whether
    the child runs.
    """

    def __init__(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self.creator_pid = os.getpid()
        self._directory = _working_directory()
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []
        self._lines: deque[str] = deque(maxlen=KEPT_LOG_LINES)
        self.logged_lines = 0
        """Number of lines logged since the first start."""
        self._lines_before = 0
        """Value of ``logged_lines`` at the last start."""
        self._exit_code: int | None = None

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy of the object in a forked process."""
        return os.getpid() != self.creator_pid

    def copy_error(self, what: str) -> str:
        """Return the error text for an attempt to control ``what`` through a copy."""
        return (
            f"Process {os.getpid()} was forked from process {self.creator_pid}, which controls {what}: only that process can start,"
            " stop, kill or restart it."
        )

    @property
    def is_running(self) -> bool:
        if self._process is None:
            return False
        # In a forked process `Popen.poll` would report that the process has ended, because it is not a child.
        return _state_of(self._process.pid) not in ("", "Z") if self.is_copy else self._process.poll() is None

    @property
    def is_suspended(self) -> bool:
        """Whether SIGSTOP has stopped the process. Always False on systems without /proc."""
        return self._process is not None and is_suspended(self._process.pid)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def logs(self) -> list[str]:
        """The newest lines logged since the first start, newest last."""
        return list(self._lines)

    def start(self, command: Sequence[str], ended: Callable[[], None]) -> None:
        """Start the process in the working directory in which this object was created, so that relative paths in settings keep
        their meaning. A thread calls ``ended`` at the end of the process's stdout."""
        if self._process is not None:
            # The previous process ended without `stop` or `kill`.
            self._ended(self._process, CLOSE_TIMEOUT_S)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        if environment.get("PYTHONPATH"):
            environment["PYTHONPATH"] = absolute_python_path(environment["PYTHONPATH"])
        self._lines_before, self._exit_code = self.logged_lines, None
        # The pipes are unbuffered: if a thread held a buffer's lock during a fork, the lock would stay locked in the child.
        process = self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=self._directory if self._directory is not None and self._directory.is_dir() else None,
            start_new_session=True,
        )
        for reader in (
            threading.Thread(target=self._read_events, args=(process, ended), daemon=True),
            threading.Thread(target=self._read_logs, args=(process,), daemon=True),
        ):
            reader.start()
            self._readers.append(reader)

    def _read_events(self, process: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
        for line in _lines_of(process.stdout):
            with contextlib.suppress(ValueError):
                self._on_event(json.loads(line))
        ended()

    def _read_logs(self, process: subprocess.Popen[bytes]) -> None:
        for line in _lines_of(process.stderr):
            self._lines.append(line)
            self.logged_lines += 1

    def last_lines(self, count: int) -> str:
        """Return the newest lines logged since the last start. If there are none, returns a sentence that says so."""
        count = min(count, self.logged_lines - self._lines_before)
        if count > 0:
            return "\n".join(self.logs[-count:])
        end = "did not end" if self._exit_code is None else f"ended with exit code {self._exit_code}"
        return f"the process logged nothing and {end}"

    def command(self, line: str) -> None:
        """Write a line to the process's stdin."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def wake(self) -> None:
        """Send SIGCONT, which continues a process that SIGSTOP has stopped."""
        if self._process is not None and not self.is_copy and hasattr(signal, "SIGCONT"):
            self._process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float) -> int | None:
        """Send SIGTERM and wait for the end of the process. Returns the exit code; None after the timeout."""
        if self._process is None:
            return 0
        self._process.terminate()
        # A process that SIGSTOP has stopped handles SIGTERM only after SIGCONT.
        self.wake()
        code = _exit_code_within(self._process, timeout_s)
        if code is not None:
            self._ended(self._process, timeout_s)
        return code

    def kill(self, timeout_s: float, grace_s: float = 0.0) -> None:
        """Send SIGKILL if the process does not end by itself within ``grace_s``."""
        if self._process is None:
            return
        # The exit code stays None if the process had to be killed.
        self._exit_code = _exit_code_within(self._process, grace_s)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._ended(self._process, timeout_s)

    def _ended(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        for reader in self._readers:
            reader.join(timeout_s)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._readers = []
        self._process = None


def _working_directory() -> Path | None:
    with contextlib.suppress(FileNotFoundError):
        return Path.cwd()
    return None


def _exit_code_within(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Return the exit code; None if the process still runs after ``timeout_s``. `Popen.wait` would not work while a test has frozen
    Python's clock."""
    end_s, pause_s = monotonic_s() + timeout_s, 0.0005
    while (code := process.poll()) is None and monotonic_s() < end_s:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return code


def _state_of(pid: int) -> str:
    """Return the state of a process as in /proc: T for stopped, Z for a zombie; "?" without /proc; empty for a missing process."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return ""
    except (OSError, IndexError):
        return "?"


def is_suspended(pid: int) -> bool:
    """Whether SIGSTOP has stopped a process or is pending. Always False on systems without /proc.

    SIGSTOP stops being pending when the first thread stops, so the pending signals are read before the threads' states.
    """
    try:
        process = Path(f"/proc/{pid}")
        status = (process / "status").read_text()
        pending = next((line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:")), "0")
        if int(pending, 16) & 1 << signal.SIGSTOP - 1:
            return True
        threads = (process / "task").glob("*/stat")
        return any(thread.read_text().rpartition(")")[2].split()[0] in ("T", "t") for thread in threads)
    except (OSError, ValueError, IndexError):
        # The process, or one of its threads, has ended.
        return False


def _lines_of(pipe: IO[bytes] | None) -> Iterator[str]:
    """Yield the lines of a pipe until its end, or until an interrupted start closes the pipe."""
    assert pipe is not None
    unread = b""
    with contextlib.suppress(ValueError, OSError):
        while chunk := pipe.read(CHUNK_BYTES):
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
    if unread:
        yield unread.decode(errors="replace")
