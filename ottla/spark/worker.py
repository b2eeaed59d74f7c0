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
"""Set once this worker's imported objects are hidden from the garbage collector."""


def prepare() -> None:
    """Prepare the worker. Tasks call this first."""
    _keep_archives()
    _spare_the_collector()
    keep_freed_memory()
    _hold_nothing_back()


def _keep_archives() -> None:
    """Keep the directories of archives that were read.

    Before each task Spark drops Python's import caches (``importlib.invalidate_caches``), and an archive's directory is then read
    again for every package in it, which takes 0.15 s. An archive that has changed gets another name from Spark.
    """
    zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]


def _spare_the_collector() -> None:
    """Hide imported objects from the garbage collector, once in each worker. Spark collects garbage after each task, which takes
    0.05 s with all imported objects.

    ``gc.get_freeze_count`` would say whether that was done, but walks over all those objects, which takes 5 ms in every task."""
    if not _prepared.is_set():
        _prepared.set()
        gc.freeze()


def _hold_nothing_back() -> None:
    """Acknowledge each piece at once. Executor and worker send small pieces with Nagle's algorithm on, so that each piece waits up
    to 40 ms for an acknowledgement.

    The worker's sockets belong to Spark, and the setting must be made again and again.
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
