"""What a process of the command line does before anything else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import cast


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


@contextmanager
def importing_without(name: str) -> Iterator[None]:
    """Let the imports within go on as where the package ``name`` is not installed.

    For packages that take another one in only because it is there: structlog takes rich, whose modules a broker never uses,
    and whose memory and time it would have to bear. A package that is imported already stays imported.
    """
    if name in sys.modules:
        yield
        return
    # What Python's import system takes for a module that cannot be imported.
    sys.modules[name] = cast(ModuleType, None)
    try:
        yield
    finally:
        del sys.modules[name]
