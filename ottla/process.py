"""Prepares a process of the command line: its standard streams, Ctrl-C, and the owner that it must not outlive."""

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

PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl(2) for the signal that a process gets when its parent ends."""
OWNER_CHECK_S = 0.1
"""How often a process checks whether its owner still exists, in seconds."""
ENDS_WITHIN_S = 0.6
"""How long a process may take to end cleanly after its owner has ended, in seconds. After that it ends at once."""
REMOVAL_ATTEMPTS = 5
"""How often the removal of a directory is tried while something may still write into it."""


def open_standard_streams() -> None:
    """Open /dev/null in place of stdin, stdout and stderr where they were closed when the process was started.

    The next file or socket would otherwise get the free number, and printed text would land in a log segment.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The system gives the lowest free number, which is the missing one.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))


def print_error(line: str) -> None:
    """Print a line to stderr by one write, so that lines of the processes of a cluster, which share it, stay whole.

    ``print`` writes a line and its end apart where Python is told not to buffer (PYTHONUNBUFFERED, as in many containers).
    """
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def interrupt_on_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, so that a command can end what it begins; see `ottla.__main__`."""
    with suppress(ValueError):
        # Only the main thread may set a handler. The process may have been started with the signal ignored.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def wake_at_the_end_of_the_parent() -> None:
    """Have Linux send SIGCONT to this process when its parent ends. A process that is stopped cannot check its parent itself.

    Linux also sends the signal when the thread of the parent that started this process ends, so it must be one that does no harm.
    Other systems have no such signal.
    """
    if sys.platform == "linux":
        # Imported here: a start does not wait for it.
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


class OwnerProcess:
    """The process that has started this one and that this one must not outlive, such as a test suite, which may be killed.

    A pipe would not show that the owner is gone, because other children of it may hold the pipe's end open. ``owned_directory`` is
    removed when the owner is gone.
    """

    def __init__(self, *, pid: int, owned_directory: Path | None = None) -> None:
        self.pid = pid
        self.owned_directory = owned_directory
        self._has_ended = threading.Event()

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self.pid

    def watch(self, end: Callable[[], None]) -> None:
        """Call ``end`` from another thread once the owner is gone, and make sure that the process ends, whatever it is doing."""

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
        """Note that the work is done and the process is about to end."""
        if self.is_gone:
            self._remove_directory()
        self._has_ended.set()

    def _remove_directory(self) -> None:
        if self.owned_directory is not None:
            for _ in range(REMOVAL_ATTEMPTS):
                shutil.rmtree(self.owned_directory, ignore_errors=True)
                if not self.owned_directory.exists():
                    break
