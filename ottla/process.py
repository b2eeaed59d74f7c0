"""What a process of the command line does before anything else."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import cast

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


def import_bare(name: str, **members: str) -> None:
    """Make a package known by its name alone, so that one of its modules can be imported without all that the package imports.

    aiokafka imports its whole client, and a broker needs its record codec: 3 MiB, and an eighth of a start. crc32c asks for its own
    version by modules that cost as much. The process must never want the package itself: of its own names only ``members`` are
    there, each with the module of the package that has it. Does nothing where it is imported already, is not installed, or has no
    such module.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None:
        return
    package = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        for member, module in members.items():
            setattr(package, member, getattr(importlib.import_module(f"{name}.{module}"), member))
    except (ImportError, AttributeError):
        del sys.modules[name]


@dataclass(slots=True, kw_only=True)
class Owner:
    """The process that has started this one, and that this one does not outlive: a test suite, which may be killed.

    A pipe would not tell that it is gone: its other children may hold the end of it open.
    """

    pid: int
    owned_directory: Path | None = None
    """Nobody wants it any more when the owner is gone."""
    _has_ended: threading.Event = field(default_factory=threading.Event)

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
