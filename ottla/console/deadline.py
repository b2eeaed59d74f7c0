"""One reading of a page's values: how long it may take, and the client by which it asks the broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.addresses import Address
from ottla.client.connection import SocketTransport
from ottla.client.errors import ClientError
from ottla.client.kafka_client import KafkaClient
from ottla.control.faults.matching import CONSOLE_CLIENT_ID
from ottla.control.pages import Reach

TIMEOUT_S: Final = 3.0
"""How long a page waits for an answer of the broker, in seconds."""
READING_TIMEOUT_S: Final = 10.0
"""How long one reading of a page's values may take, in seconds. It may ask for many things, each of which may take `TIMEOUT_S`."""


_RECORDS: Final = threading.Lock()
"""Held by the one page that reads records."""
_CHECK_S: Final = 0.1
"""How often a page that waits for another one looks whether it must end, in seconds."""


class Late(ClientError):
    """A reading has taken too long, or nobody wants its values any more."""


class Deadline:
    """When a page's present reading must end. It ends at once where the browser has left or the control API is closed."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self.begin()

    def begin(self) -> None:
        """A new reading begins now."""
        self._end_s = time.monotonic() + READING_TIMEOUT_S

    def check(self) -> None:
        """Raises `Late`."""
        if time.monotonic() >= self._end_s or self._reach.is_closed.is_set() or self._reach.has_left():
            raise Late(f"the broker has not given all that this page shows within {READING_TIMEOUT_S:.0f} s")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Read records while no other page does: a batch of some KiB may inflate to `MAX_INFLATED_BYTES`. Raises `Late`."""
        while not _RECORDS.acquire(timeout=_CHECK_S):
            self.check()
        try:
            yield
        finally:
            _RECORDS.release()


class _Transport(SocketTransport):
    """Sends nothing for a reading that must end."""

    def __init__(self, address: Address, timeout_s: float, check: Callable[[], None]) -> None:
        self._check = check
        super().__init__(address, timeout_s)

    def send(self, data: bytes) -> None:
        self._check()
        super().send(data)


def new_client(reach: Reach, check: Callable[[], None]) -> KafkaClient:
    """A client that calls ``check`` before each request; what ``check`` raises ends what is asked for. It reaches the broker whose
    process this is also where the advertised address does not exist."""

    def connect(address: Address, timeout_s: float) -> SocketTransport:
        return _Transport(reach.from_within.get(address, address), timeout_s, check)

    return KafkaClient(reach.bootstrap, TIMEOUT_S, client_id=CONSOLE_CLIENT_ID, connect=connect)
