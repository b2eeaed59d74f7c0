"""Prepares a Python worker of Spark for the tasks of this package, so that each task costs milliseconds."""

from __future__ import annotations

import gc
import socket
import threading
from contextlib import suppress
from zipimport import zipimporter

from ottla.storage.memory import keep_freed_memory

HIGHEST_FD = 64
_prepared = threading.Event()
"""Set when this worker's imported objects are hidden from the garbage collector."""


def prepare() -> None:
    """Prepare the worker. Tasks call this first."""
    _keep_archives()
    _spare_the_collector()
    keep_freed_memory()
    _hold_nothing_back()


def _keep_archives() -> None:
    """Keep the directory listings of the archives that were imported.

    Before each task Spark drops Python's import caches (``importlib.invalidate_caches``). An archive's directory would then be read
    again for every package in it, which takes 0.15 s. Spark gives a changed archive another name.
    """
    zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]


def _spare_the_collector() -> None:
    """Hide imported objects from the garbage collector, once per worker. Spark collects garbage after each task, which takes 0.05 s
    with all imported objects.

    ``gc.get_freeze_count`` would show whether that was done, but takes 5 ms because it walks over all those objects.
    """
    if not _prepared.is_set():
        _prepared.set()
        gc.freeze()


def _hold_nothing_back() -> None:
    """Disable delayed acknowledgements and Nagle's algorithm. Executor and worker exchange small pieces, which would otherwise wait
    up to 40 ms each.

    The sockets belong to Spark, and the kernel resets TCP_QUICKACK, so each task sets the options again.
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
