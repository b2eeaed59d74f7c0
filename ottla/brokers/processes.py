"""Forks the processes of a cluster from the parent, after the parent has imported their modules.

Forked processes share the memory of imported modules, so another broker only needs memory for its own data.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ottla.process import OwnerProcess

MAX_LINE_BYTES = 1 << 16
"""Maximum length, in bytes, of the JSON line that a process prints when it is ready."""


@dataclass(slots=True)
class Child:
    name: str
    pid: int
    output: int
    """The descriptor of the pipe from the process's stdout; -1 after the process has closed stdout."""
    ready: dict[str, Any] | None = None
    """The JSON line that the process printed when it was ready."""
    failure: str | None = None
    """The reason of a failed start, if the process has reported one."""
    exit_code: int | None = None
    """The exit code as in `subprocess.Popen`: negative for a signal; None while the process runs."""
    _unread: bytearray = field(default_factory=bytearray)

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    def read(self) -> bool:
        """Read from the process's stdout. Returns whether the process has just reported that it is ready."""
        chunk = os.read(self.output, MAX_LINE_BYTES)
        if not chunk:
            os.close(self.output)
            self.output = -1
            return False
        if self.ready is not None:
            return False
        self._unread += chunk
        line, end, _ = self._unread.partition(b"\n")
        if not end and len(self._unread) < MAX_LINE_BYTES:
            return False
        said = json.loads(line)
        if said["event"] == "failed":
            self.failure = said["reason"]
            return False
        self.ready = said
        return True

    def look_for_exit(self) -> bool:
        """Whether the process has ended since the last call of this method."""
        if not self.is_running:
            return False
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        self.exit_code = os.waitstatus_to_exitcode(status)
        return True

    @property
    def has_unread_output(self) -> bool:
        return self.output >= 0 and bool(select.select([self.output], [], [], 0)[0])

    def send(self, number: int) -> None:
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start(name: str, run: Callable[[OwnerProcess], int], to_close: list[int]) -> Child:
    """Fork a process that calls ``run`` and exits with its result. The new process also ends when this process ends.

    ``to_close`` has descriptors that the new process must close.
    """
    output, write_end = os.pipe()
    own_pid = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(run, own_pid, write_end, [output, *to_close])
    os.close(write_end)
    return Child(name=name, pid=pid, output=output)


def _child(run: Callable[[OwnerProcess], int], parent_pid: int, write_end: int, to_close: list[int]) -> NoReturn:
    code = 1
    try:
        # The process gets its own group, so that Ctrl-C at a terminal only reaches the parent, which stops processes in order.
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(write_end, 1)
        for descriptor in [write_end, *to_close]:
            os.close(descriptor)
        code = run(OwnerProcess(pid=parent_pid))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
