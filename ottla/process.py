"""What a process of the command line does before anything else."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

INTERRUPTED_EXIT = 130
"""What shells give a command that Ctrl-C has ended."""


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


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def end_on_sigterm() -> None:
    """SIGTERM ends the process with exit code 0 from now on, until a broker takes the signal over.

    Process 1 of a container ignores it otherwise, and whoever stops the container waits until it is killed.
    """
    with suppress(ValueError):
        # Only the main thread may say so.
        signal.signal(signal.SIGTERM, _end)
