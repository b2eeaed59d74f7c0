"""What a process of the command line does before anything else."""

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

OWNER_CHECK_S = 0.1
"""How often a process looks whether the one that has started it is still there."""
ENDS_WITHIN_S = 0.6
"""How long a process may take to end cleanly once its owner is gone. After that it ends as it is."""
REMOVAL_ATTEMPTS = 5
"""How often a directory is removed into which something may still be written."""


def open_standard_streams() -> None:
    """Put /dev/null in the place of stdin, stdout and stderr where whoever started the process has closed them.

    The next file or socket would get the free number, and what is printed there would land in a log segment.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is the one that is missing.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))


def interrupt_on_ctrl_c() -> None:
    """Ctrl-C raises KeyboardInterrupt from now on, so that a command can end what it begins; see `ottla.__main__`."""
    with suppress(ValueError):
        # Only the main thread may say so. Whoever started the process may have told it to ignore the signal.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Owner:
    """The process that has started this one, and that this one does not outlive: a test suite, which may be killed.

    A pipe would not tell that it is gone: its other children may hold the end of it open. Nobody wants ``owned_directory`` any
    more when the owner is gone.
    """

    def __init__(self, *, pid: int, owned_directory: Path | None = None) -> None:
        self.pid = pid
        self.owned_directory = owned_directory
        self._has_ended = threading.Event()

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self.pid

    def watch(self, end: Callable[[], None]) -> None:
        """Call ``end`` from another thread once the owner is gone, and see to it that the process ends, whatever it is doing."""

        def run() -> None:
            while not self.is_gone:
                time.sleep(OWNER_CHECK_S)
            with suppress(Exception):
                end()
            if not self._has_ended.wait(ENDS_WITHIN_S):
                self._remove_directory()
                os._exit(1)

        threading.Thread(target=run, name="owner", daemon=True).start()

    def ended(self) -> None:
        """The work is done, and the process is about to end."""
        if self.is_gone:
            self._remove_directory()
        self._has_ended.set()

    def _remove_directory(self) -> None:
        if self.owned_directory is not None:
            for _ in range(REMOVAL_ATTEMPTS):
                shutil.rmtree(self.owned_directory, ignore_errors=True)
                if not self.owned_directory.exists():
                    break
