"""Prepares a process of the command line: standard streams, Ctrl-C, exit codes, and the process that owns it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STOPPED_EXIT = 0
"""Exit code of a command whose regular end is a signal (``serve``, ``console``, ``copy --follow``), after SIGINT or SIGTERM."""
FAILED_EXIT = 1
USAGE_EXIT = 2
"""Exit code if the command line is wrong, or a cluster does not answer or refuses the request."""
PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl(2): the signal for a process whose parent ends."""
OWNER_CHECK_S = 0.1
"""Interval, in seconds, of checks whether the owner still exists."""
ENDS_WITHIN_S = 0.6
"""Timeout, in seconds, for a clean exit after the owner has ended. After the timeout the process exits at once."""
REMOVAL_ATTEMPTS = 5
"""Number of attempts to remove a directory, which fail while another thread writes to it."""


def interrupted_exit(number: int) -> int:
    """Return the exit code of a command that a signal has ended before it was done, as shells do."""
    return 128 + number


def open_standard_streams() -> None:
    """Open /dev/null in place of stdin, stdout and stderr if they were closed when the process started.

    Otherwise the next file would get the free descriptor, so that printed text could be written to a log segment.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The system assigns the lowest free descriptor, which is that of the closed stream.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))


def print_error(line: str) -> None:
    """Print a line to stderr in one write, because processes of a cluster share stderr.

    ``print`` writes a line and its newline separately if Python is unbuffered (PYTHONUNBUFFERED, as in many containers).
    """
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def interrupt_on_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, so that a command can clean up; see `ottla.__main__`."""
    with suppress(ValueError):
        # Only the main thread may set a handler. If the process was started with SIGINT ignored, SIGINT stays ignored.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_on_sigterm() -> None:
    """Let SIGTERM raise KeyboardInterrupt from now on, for a command whose regular end is a signal."""
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def wake_at_the_end_of_the_parent() -> None:
    """Let Linux send SIGCONT to this process when its parent ends, because a stopped process cannot check its parent.

    The signal must be harmless, because Linux also sends it when only the parent's thread ends that started this process.
    """
    if sys.platform == "linux":
        # `ctypes` is imported lazily, so that other commands start faster.
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


class OwnerProcess:
    """The parent process, such as a test suite. This process must end when the owner ends, even by SIGKILL.

    A pipe would not show the owner's end, because the owner's other children may hold the pipe open. ``owned_directory`` is removed
    when the owner has ended.
    """

    def __init__(self, *, pid: int, owned_directory: Path | None = None) -> None:
        self.pid = pid
        self.owned_directory = owned_directory
        self._has_ended = threading.Event()

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self.pid

    def watch(self, end: Callable[[], None]) -> None:
        """Call ``end`` from another thread when the owner has ended. The process exits even if ``end`` has no effect."""

        def run() -> None:
            wake_at_the_end_of_the_parent()
            while not self.is_gone:
                time.sleep(OWNER_CHECK_S)
            with suppress(Exception):
                end()
            if not self._has_ended.wait(ENDS_WITHIN_S):
                self._remove_directory()
                os._exit(1)

        threading.Thread(target=run, name="owner", daemon=True).start()

    def ended(self) -> None:
        """Record that the process is about to exit by itself, so that `watch` does not stop the process."""
        if self.is_gone:
            self._remove_directory()
        self._has_ended.set()

    def _remove_directory(self) -> None:
        if self.owned_directory is not None:
            for _ in range(REMOVAL_ATTEMPTS):
                shutil.rmtree(self.owned_directory, ignore_errors=True)
                if not self.owned_directory.exists():
                    break
