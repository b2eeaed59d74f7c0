"""Connects to secured brokers for ``ottla health``, and explains why a client without credentials cannot connect."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ottla.addresses import split_address
from ottla.cli.command_config import connecting
from ottla.cli.health_check import Connect, HealthChannel, is_local, plain
from ottla.client.errors import ClientError
from ottla.client.ready_line import NotReady
from ottla.client.security.client_config import Connecting
from ottla.client.security.listener_probe import diagnosis
from ottla.client.wire.connection import BrokerConnection
from ottla.client.wire.transport import SocketTransport

CLIENT_ID = "ottla-health"


class _Channel:
    """An authenticated connection with the methods of a socket."""

    def __init__(self, transport: SocketTransport) -> None:
        self.sendall = transport.send
        self.recv = transport.receive


@contextmanager
def secured(place: str, timeout_s: float) -> Iterator[HealthChannel]:
    """Connect and authenticate as --command-config says, except to a local socket.

    Raises OSError, and `NotReady` if the broker rejects the client.
    """
    if is_local(place):
        with plain(place, timeout_s) as opened:
            yield opened
        return
    with secured_by(connecting(place))(place, timeout_s) as channel:
        yield channel


def secured_by(settings: Connecting) -> Connect:
    """Return a function that connects and authenticates with ``settings``. It raises the errors of `secured`."""

    @contextmanager
    def connect(place: str, timeout_s: float) -> Iterator[HealthChannel]:
        address = split_address(place)
        try:
            with closing(SocketTransport(address, timeout_s, settings)) as transport:
                BrokerConnection(address, transport, CLIENT_ID, connecting=settings)
                yield _Channel(transport)
        except ClientError as error:
            raise NotReady(str(error)) from None

    return connect


def reason_of(place: str, failure: NotReady) -> NotReady:
    """Return which credentials the listener needs; ``failure`` if it needs none."""
    address = split_address(place)
    try:
        socket.create_connection(address, 1.0).close()
    except (OSError, UnicodeError):
        return failure
    line = diagnosis(address, Connecting(place, prefix=""))
    return failure if line is None else NotReady(f"{line} in a file for --command-config")
