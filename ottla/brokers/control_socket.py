"""The Unix socket through which `ottla cluster restart` sends commands to the parent of a cluster on the same machine.

The socket is a file in the cluster's data directory that only its owner can open. A client sends one line, such as ``restart 2``,
and receives one line of JSON when the command is done or rejected.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SOCKET_FILE = "cluster.sock"
MAX_CLIENTS = 8
BACKLOG = 128
"""Maximum number of connections that wait to be accepted. The operating system refuses further connections."""
MAX_LINE_BYTES = 256
MAX_ANSWER_BYTES = 1 << 16

Answer = Callable[[Mapping[str, Any]], None]
"""Sends the response to a command and closes the connection."""
Handle = Callable[[str, Answer], None]
"""Executes a command line and calls the `Answer`, at once or later."""


@contextmanager
def _in_directory(directory: str) -> Iterator[None]:
    """Change the working directory in the block, so that the socket's address is only a file name: addresses of Unix sockets have
    at most 107 bytes."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(directory)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


class ControlSocket:
    """The listening socket in the parent. The selector's loop calls ``handle`` with each command. Raises OSError.

    An existing socket file is replaced, so the caller must hold the locks of the nodes' directories to exclude another parent.
    """

    def __init__(self, directory: str, selector: selectors.BaseSelector, handle: Handle) -> None:
        self._path = Path(directory, SOCKET_FILE)
        self._selector = selector
        self._handle = handle
        self._clients: dict[socket.socket, bytearray] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            with _in_directory(directory):
                Path(SOCKET_FILE).unlink(missing_ok=True)
                self._listener.bind(SOCKET_FILE)
        except BaseException:
            self._listener.close()
            raise
        finally:
            os.umask(mask)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            if len(self._clients) >= MAX_CLIENTS:
                # Disconnect the client that connected first, so that idle clients do not block others.
                self._drop(next(iter(self._clients)))
            client.setblocking(False)
            self._clients[client] = bytearray()
            self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: socket.socket) -> None:
        try:
            chunk = client.recv(MAX_LINE_BYTES)
        except OSError:
            chunk = b""
        unread = self._clients[client]
        unread += chunk
        line, end, _ = bytes(unread).partition(b"\n")
        if end:
            unread.clear()
            self._handle(line.decode(errors="replace"), lambda answer: self._answer(client, answer))
        elif not chunk or len(unread) >= MAX_LINE_BYTES:
            self._drop(client)

    def _answer(self, client: socket.socket, answer: Mapping[str, Any]) -> None:
        if client in self._clients:
            with suppress(OSError):
                client.sendall(json.dumps(answer).encode() + b"\n")
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        del self._clients[client]
        self._selector.unregister(client)
        client.close()

    def close(self) -> None:
        for client in list(self._clients):
            self._drop(client)
        self._selector.unregister(self._listener)
        self._listener.close()
        with suppress(OSError):
            self._path.unlink()


def command(directory: str, line: str, timeout_s: float) -> dict[str, Any]:
    """Send a command to the parent of the cluster in ``directory`` and return the response. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        with _in_directory(directory):
            connection.connect(SOCKET_FILE)
        connection.sendall(f"{line}\n".encode())
        data = b""
        while not data.endswith(b"\n") and len(data) < MAX_ANSWER_BYTES:
            chunk = connection.recv(MAX_ANSWER_BYTES)
            if not chunk:
                break
            data += chunk
    try:
        answer = json.loads(data)
    except ValueError:
        raise ConnectionError("the cluster ended before it responded") from None
    return dict(answer)
