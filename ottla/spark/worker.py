"""Prepares Spark's Python workers, so that tasks start within milliseconds."""

from __future__ import annotations

import gc
import socket
import threading
from contextlib import suppress
from zipimport import zipimporter

from ottla.storage.memory import keep_freed_memory

HIGHEST_FD = 64
_prepared = threading.Event()
"""Set when the imported objects of this worker are hidden from the garbage collector."""


def prepare() -> None:
    """Prepare the worker. Each task calls this first."""
    _keep_archives()
    _spare_the_collector()
    keep_freed_memory()
    _hold_nothing_back()


def _keep_archives() -> None:
    """Keep the cached directories of imported zip archives.

    Before each task Spark drops Python's import caches (``importlib.invalidate_caches``), and reading an archive's directory again
    for every package takes 0.15 s. The cache stays valid, because Spark gives a changed archive another name.
    """
    zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]


def _spare_the_collector() -> None:
    """Hide imported objects from the garbage collector, once per worker. Spark collects garbage after each task, which would take
    0.05 s with these objects. `_prepared` records that this was done, because ``gc.get_freeze_count`` takes 5 ms.
    """
    if not _prepared.is_set():
        _prepared.set()
        gc.freeze()


def _hold_nothing_back() -> None:
    """Disable delayed acknowledgements and Nagle's algorithm on Spark's sockets: executor and worker exchange small messages, each
    of which could wait 40 ms. Each task sets the options again, because the kernel resets TCP_QUICKACK.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for fd in range(3, HIGHEST_FD):
        with suppress(OSError):
            connection = socket.socket(fileno=fd)
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            finally:
                connection.detach()
