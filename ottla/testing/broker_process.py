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
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

KEPT_LOG_LINES = 10_000
NOT_INHERITED = ("KAFKA_", "OTTLA_", "PYTEST_")
"""What begins so speaks to another broker, or of the test that starts this one: PYTEST_CURRENT_TEST is as long as the test's id,
and Linux starts no process with a variable above 128 KiB."""


def setting_arguments(settings: Mapping[str, object], features: Mapping[str, int]) -> list[str]:
    """The arguments of ``ottla serve`` for settings, which may be numbers and truth values, and for feature levels."""
    arguments = []
    for key, value in settings.items():
        arguments += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    for name, level in features.items():
        arguments += ["--feature", f"{name}={level}"]
    return arguments


def new_directory() -> Path:
    """A directory for temporary data that is not there yet."""
    return Path(tempfile.gettempdir(), f"ottla-{uuid.uuid4().hex[:12]}")


def remove_directory(directory: Path, pid: int) -> None:
    """Remove a directory of process ``pid``. One that was forked off has a copy of its handle, but must not remove directories."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)


class ServedProcess:
    """One process, which may be started again after its end. ``on_event`` is called from a thread with each line of its stdout."""

    def __init__(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self._lines: deque[str] = deque(maxlen=KEPT_LOG_LINES)
        self.logged_lines = 0
        """How many lines were logged in all its lives."""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def logs(self) -> list[str]:
        """The newest lines that were logged in all its lives, newest last."""
        return list(self._lines)

    def start(self, command: Sequence[str], ended: threading.Event) -> None:
        """Start the process. ``ended`` is set at the end of its stdout."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        process = self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        for reader in (
            threading.Thread(target=self._read_events, args=(process, ended), daemon=True),
            threading.Thread(target=self._read_logs, args=(process,), daemon=True),
        ):
            reader.start()
            self._readers.append(reader)

    def _read_events(self, process: subprocess.Popen[str], ended: threading.Event) -> None:
        for line in _lines_of(process.stdout):
            with contextlib.suppress(ValueError):
                self._on_event(json.loads(line))
        ended.set()

    def _read_logs(self, process: subprocess.Popen[str]) -> None:
        for line in _lines_of(process.stderr):
            self._lines.append(line.rstrip("\n"))
            self.logged_lines += 1

    def command(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def stop(self, timeout_s: float) -> int | None:
        """Send SIGTERM and wait for the process; returns the exit code, None where it has not ended in time."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._ended(self._process, timeout_s)
        return code

    def kill(self, timeout_s: float) -> None:
        """Send SIGKILL, which is like a crash."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._ended(self._process, timeout_s)

    def _ended(self, process: subprocess.Popen[str], timeout_s: float) -> None:
        for reader in self._readers:
            reader.join(timeout_s)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._readers = []
        self._process = None


def _lines_of(pipe: IO[str] | None) -> Iterator[str]:
    """The lines of a pipe until its end, or until it is closed because a start was interrupted."""
    assert pipe is not None
    with contextlib.suppress(ValueError):
        yield from pipe
