"""A process of ``ottla serve`` as whoever starts it sees it: what it prints and logs, and how it ends."""

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
"""How much is read from a pipe at once."""
CLOSE_TIMEOUT_S = 10.0
"""How long the threads that read the output of a process that has ended may take, in seconds."""
LONGEST_PAUSE_S = 0.02
"""The longest pause between two looks at whether a process has ended, in seconds."""
NOT_INHERITED = ("KAFKA_", "OTTLA_", "PYTEST_")
"""What begins so speaks to another broker, or of the test that starts this one: PYTEST_CURRENT_TEST is as long as the test's id,
and Linux starts no process with a variable above 128 KiB."""


SAFE_PATH = ("-P",)
"""Keeps Python from looking for modules in the working directory first, where a user's ``queue.py`` would be taken for Python's. It
still looks where PYTHONPATH, installed packages and editable installs say."""


def data_directory(path: str | Path | None, otherwise: Path) -> Path:
    """The absolute path of a data directory, which stays the same when the working directory changes. Raises ValueError."""
    if path is None:
        return otherwise
    directory = Path(path).absolute()
    # Kafka's log.dirs is a list, whose parts are trimmed.
    if "," in str(directory):
        raise ValueError(f"data_dir: {str(path)!r} contains a comma, which separates directories in log.dirs; choose another path")
    if str(directory) != str(directory).rstrip():
        raise ValueError(f"data_dir: {str(path)!r} ends with white space, which log.dirs cannot contain; choose another path")
    return directory


def setting_arguments(settings: Mapping[str, object], features: Mapping[str, int]) -> list[str]:
    """The arguments of ``ottla serve`` for settings, which may be numbers and truth values, and for feature levels."""
    arguments = []
    for key, value in settings.items():
        arguments += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    for name, level in features.items():
        arguments += ["--feature", f"{name}={level}"]
    return arguments


def new_directory() -> Path:
    """A directory for temporary data that is not there yet: in the system's directory for these where the path of the configured
    one, such as TMPDIR, contains a comma, which separates directories in ``log.dirs``."""
    configured = Path(tempfile.gettempdir()).absolute()
    parent = configured if "," not in str(configured) else Path("/tmp")
    return parent / f"ottla-{uuid.uuid4().hex[:12]}"


def remove_directory(directory: Path, pid: int) -> None:
    """Remove a directory of process ``pid``. One that was forked off has a copy of its handle, but must not remove directories."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)


class ServedProcess:
    """One process, which may be started again after its end. ``on_event`` is called from a thread with each line of its stdout.

    The object belongs to the process that created it. A process that is forked from that one has a copy, whose threads do not run
    and whose child the process is not: the copy can tell whether the process runs, and nothing else.
    """

    def __init__(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self.creator_pid = os.getpid()
        self._directory = _working_directory()
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []
        self._lines: deque[str] = deque(maxlen=KEPT_LOG_LINES)
        self.logged_lines = 0
        """How many lines were logged in all its lives."""
        self._lines_before = 0
        """How many of these lines were logged before the newest start."""
        self._exit_code: int | None = None

    @property
    def is_copy(self) -> bool:
        """Whether the present process was forked from the one that created this object."""
        return os.getpid() != self.creator_pid

    def copy_error(self, what: str) -> str:
        """The reason why a copy does not control ``what``."""
        return (
            f"Process {os.getpid()} was forked from process {self.creator_pid}, which controls {what}: only that process can start,"
            " stop, kill or restart it."
        )

    @property
    def is_running(self) -> bool:
        if self._process is None:
            return False
        # To a copy the process is no child, and `Popen.poll` would take it for one that has ended.
        return _state_of(self._process.pid) not in ("", "Z") if self.is_copy else self._process.poll() is None

    @property
    def is_suspended(self) -> bool:
        """Whether SIGSTOP has stopped the process. Always False where the system has no /proc."""
        return self._process is not None and is_suspended(self._process.pid)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def logs(self) -> list[str]:
        """The newest lines that were logged in all its lives, newest last."""
        return list(self._lines)

    def start(self, command: Sequence[str], ended: threading.Event) -> None:
        """Start the process, in the directory in which this object was created, so that relative paths of its settings keep their
        meaning. ``ended`` is set at the end of its stdout."""
        if self._process is not None:
            # The process has ended by itself, or was killed by another one.
            self._ended(self._process, CLOSE_TIMEOUT_S)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        if environment.get("PYTHONPATH"):
            environment["PYTHONPATH"] = absolute_python_path(environment["PYTHONPATH"])
        self._lines_before, self._exit_code = self.logged_lines, None
        # The pipes have no buffers: the lock of a buffer that a thread reads stays locked for ever in a forked process.
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

    def _read_events(self, process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        for line in _lines_of(process.stdout):
            with contextlib.suppress(ValueError):
                self._on_event(json.loads(line))
        ended.set()

    def _read_logs(self, process: subprocess.Popen[bytes]) -> None:
        for line in _lines_of(process.stderr):
            self._lines.append(line)
            self.logged_lines += 1

    def last_lines(self, count: int) -> str:
        """The newest lines that were logged since the start, or a sentence where there are none."""
        count = min(count, self.logged_lines - self._lines_before)
        if count > 0:
            return "\n".join(self.logs[-count:])
        end = "did not end" if self._exit_code is None else f"ended with exit code {self._exit_code}"
        return f"the process logged nothing and {end}"

    def command(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def wake(self) -> None:
        """Let a process go on that SIGSTOP has stopped."""
        if self._process is not None and not self.is_copy:
            self._process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float) -> int | None:
        """Send SIGTERM and wait for the process; returns the exit code, None where it has not ended in time."""
        if self._process is None:
            return 0
        self._process.terminate()
        # A process that is stopped by SIGSTOP would not see the SIGTERM.
        self.wake()
        code = _exit_code_within(self._process, timeout_s)
        if code is not None:
            self._ended(self._process, timeout_s)
        return code

    def kill(self, timeout_s: float, grace_s: float = 0.0) -> None:
        """Send SIGKILL, which is like a crash, to a process that does not end by itself within ``grace_s``."""
        if self._process is None:
            return
        # None for a process that had to be killed.
        self._exit_code = _exit_code_within(self._process, grace_s)
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
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
    """The working directory; None where it was removed."""
    with contextlib.suppress(FileNotFoundError):
        return Path.cwd()
    return None


def _exit_code_within(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """The exit code; None where the process still runs after ``timeout_s``. `Popen.wait` goes by a clock that tests freeze."""
    end_s, pause_s = monotonic_s() + timeout_s, 0.0005
    while (code := process.poll()) is None and monotonic_s() < end_s:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return code


def _state_of(pid: int) -> str:
    """The state of a process as Linux names it: T for stopped, Z for one that has ended. Elsewhere "?". Empty if there is no
    such process."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return ""
    except (OSError, IndexError):
        return "?"


def is_suspended(pid: int) -> bool:
    """Whether SIGSTOP has stopped a process, or was sent to it and not handled yet. Always False where the system has no /proc.

    The signal stops the threads one after the other, the first one in the moment in which it is no longer pending. So the pending
    signals are read before the threads' states.
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
        # The process or a thread has ended.
        return False


def _lines_of(pipe: IO[bytes] | None) -> Iterator[str]:
    """The lines of a pipe until its end, or until it is closed because a start was interrupted."""
    assert pipe is not None
    unread = b""
    with contextlib.suppress(ValueError, OSError):
        while chunk := pipe.read(CHUNK_BYTES):
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
    if unread:
        yield unread.decode(errors="replace")
