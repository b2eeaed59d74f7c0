"""Connections inside the broker's process, and from processes of its own user on its machine.

These connections need no credentials, so that the console and the health check also work if all listeners authenticate clients.
Only this process and processes of its user can open them.
"""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ConnectionFactory = Callable[[], asyncio.BufferedProtocol]
ClientEnd = socket.socket
"""The client's end of a connection inside the process."""
_USER_ONLY = 0o600


class LocalSocket:
    """A listening Unix socket that only processes of the broker's user can connect to."""

    def __init__(self, path: str, server: asyncio.Server) -> None:
        self.path = path
        self._server = server

    def close(self) -> None:
        self._server.close()
        Path(self.path).unlink(missing_ok=True)


async def listen_locally(path: str, factory: ConnectionFactory) -> LocalSocket:
    """Listen at ``path``; replace a socket that a killed broker left there. Raises OSError, also if the path is too long."""
    listening = _bound(path)
    try:
        return LocalSocket(path, await asyncio.get_running_loop().create_unix_server(factory, sock=listening))
    except BaseException:
        listening.close()
        raise


def _bound(path: str) -> socket.socket:
    file, bound = Path(path), socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(file.lstat().st_mode):
                file.unlink()
        bound.bind(path)
        # Set the permissions before processes can connect.
        file.chmod(_USER_ONLY)
    except BaseException:
        bound.close()
        raise
    return bound


_accepting: set[asyncio.Task[object]] = set()
"""Tasks that accept connections. The event loop has only weak references to tasks."""


def open_connection(factory: ConnectionFactory) -> ClientEnd:
    """Return the client's end of a new connection, whose other end has the protocol that ``factory`` creates."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    task = asyncio.ensure_future(asyncio.get_running_loop().connect_accepted_socket(factory, ours))
    _accepting.add(task)
    task.add_done_callback(_accepting.discard)
    return theirs
