"""Sends and receives bytes over TCP, with or without TLS."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.addresses import Address

if TYPE_CHECKING:
    from ottla.client.security.client_config import Connecting

CONNECT_TIMEOUT_S: Final = 10.0
"""Timeout for opening a connection, in seconds, as in Kafka's clients (socket.connection.setup.timeout.ms)."""


class Transport(Protocol):
    """A byte stream to a broker. Methods raise OSError when the connection breaks, TimeoutError after the timeout."""

    def send(self, data: bytes) -> None: ...

    def receive(self, size: int) -> bytes:
        """Read exactly ``size`` bytes."""
        ...

    def close(self) -> None: ...


Connect = Callable[[Address, float], Transport]
"""Opens a transport to an address. The second argument is the timeout of each read, in seconds. Raises OSError."""


class SocketTransport:
    """A connection over a socket, by default TCP, with TLS if configured.

    Raises `ClientError` for a TLS error that a retry does not fix. ``opened`` is a connected socket to use in place of a new one;
    it is closed with the transport.
    """

    def __init__(
        self, address: Address, timeout_s: float, connecting: Connecting | None = None, *, opened: socket.socket | None = None
    ) -> None:
        self._open = contextlib.ExitStack()
        raw = connected(address, timeout_s) if opened is None else opened
        self._open.enter_context(raw)
        try:
            raw.settimeout(timeout_s)
            self._socket = raw
            if connecting is not None and connecting.tls is not None:
                self._socket = self._open.enter_context(_secured(raw, address, connecting))
            self._in = self._open.enter_context(self._socket.makefile("rb"))
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, size: int) -> bytes:
        data = self._in.read(size)
        if len(data) < size:
            raise ConnectionResetError("the broker closed the connection")
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._open.close()


def connected(address: Address, timeout_s: float) -> socket.socket:
    """Return a new socket that is connected to an address. Raises OSError."""
    try:
        raw = socket.create_connection(address, min(timeout_s, CONNECT_TIMEOUT_S))
    except UnicodeError:
        raise OSError(f"{address[0]!r} is not a host name") from None
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return raw


def _secured(raw: socket.socket, address: Address, connecting: Connecting) -> socket.socket:
    """Wrap a socket in TLS. ssl is imported here, so that commands without TLS start faster."""
    from ottla.client.security.listener_probe import explained
    from ottla.client.security.tls import wrapped

    assert connecting.tls is not None
    try:
        return wrapped(raw, connecting.tls, address)
    except OSError as error:
        raise explained(error, address, connecting) from None
