"""What a Python worker of Spark does before its tasks of ours, so that each of them costs milliseconds."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from zipimport import zipimporter

HIGHEST_FD = 64


def prepare() -> None:
    """Call it first thing in a task."""
    _forget_archives()
    _hold_nothing_back()


def _forget_archives() -> None:
    """Drop the finders of archives; Python makes them again where an import wants one.

    Spark has Python look anew at all it knows before each task (``importlib.invalidate_caches``), and an archive's directory is
    then read again for every package in it: 0.15 s a task.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def _hold_nothing_back() -> None:
    """Executor and worker talk in small pieces, with Nagle's algorithm on: each waits for acknowledgements, 40 ms at a time.

    The worker's sockets are Spark's own; an acknowledgement at once must be asked for again and again.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for fd in range(3, HIGHEST_FD):
        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as found:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
