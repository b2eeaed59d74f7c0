"""The time limit for reading a page's values, and a Kafka client that observes this limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import Final

from ottla.addresses import Address
from ottla.client.errors import ClientError
from ottla.client.kafka_client import KafkaClient
from ottla.client.security.client_config import Connecting
from ottla.client.wire.transport import SocketTransport
from ottla.control.faults.matching import CONSOLE_CLIENT_ID
from ottla.control.pages import Reach

TIMEOUT_S: Final = 3.0
"""Timeout of each request of a page to the broker, in seconds."""
READING_TIMEOUT_S: Final = 10.0
"""Timeout, in seconds, for reading a page's values, which may take many requests."""


_RECORDS: Final = threading.Lock()
"""Held by the page that reads records; see `Deadline.alone`."""
_CHECK_S: Final = 0.1
"""Interval, in seconds, at which a page checks its deadline while another page reads records."""


class Late(ClientError):
    """Reading a page's values took too long, or the page was closed."""


class Deadline:
    """The deadline by which a page must have read its values.

    The page also stops if the browser disconnects or the control API closes.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self.begin()

    def begin(self) -> None:
        """Restart the time limit, before the page reads its values again."""
        self._end_s = time.monotonic() + READING_TIMEOUT_S

    def check(self) -> None:
        """Raise `Late` if the page must stop reading its values."""
        if time.monotonic() >= self._end_s or self._reach.is_closed.is_set() or self._reach.has_left():
            raise Late(f"the broker did not return everything for this page within {READING_TIMEOUT_S:.0f} s")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Ensure that no other page reads records during the ``with`` block, because each batch may inflate to
        `MAX_INFLATED_BYTES`. Raises `Late`."""
        while not _RECORDS.acquire(timeout=_CHECK_S):
            self.check()
        try:
            yield
        finally:
            _RECORDS.release()


class _Transport(SocketTransport):
    """A connection that calls ``check`` before each request, so that no request is sent after the deadline."""

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        check: Callable[[], None],
        *,
        opened: socket | None = None,
        connecting: Connecting | None = None,
    ) -> None:
        self._check = check
        super().__init__(address, timeout_s, connecting, opened=opened)

    def send(self, data: bytes) -> None:
        self._check()
        super().send(data)


def new_client(reach: Reach, check: Callable[[], None]) -> KafkaClient:
    """Return a client that calls ``check`` before each request. The client connects to this process's broker inside the process,
    because the advertised address may not be reachable from this machine, or may need credentials."""

    def connect(address: Address, timeout_s: float) -> SocketTransport:
        opened = reach.open_connection() if address in reach.own_addresses else None
        return _Transport(address, timeout_s, check, opened=opened)

    return KafkaClient(reach.bootstrap, TIMEOUT_S, client_id=CONSOLE_CLIENT_ID, connect=connect)


def secured_client(connecting: Connecting, reach: Reach, check: Callable[[], None]) -> KafkaClient:
    """Return a client like `new_client`, but for a cluster outside of this process, with the TLS and SASL settings
    ``connecting``."""

    def connect(address: Address, timeout_s: float) -> SocketTransport:
        return _Transport(address, timeout_s, check, connecting=connecting)

    return KafkaClient(reach.bootstrap, TIMEOUT_S, client_id=CONSOLE_CLIENT_ID, connect=connect, connecting=connecting)
