"""Serves the console of a cluster that is not in this process, ottla or Apache Kafka, for ``ottla console``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from ottla.client.schema_registry.registry_client import Registry
from ottla.client.security.client_config import Connecting
from ottla.console.client_view import ClientView
from ottla.console.deadline import secured_client
from ottla.console.kept_reads import KeptReads
from ottla.console.registered_values import RegistryValues
from ottla.console.site import Console
from ottla.control.command import CommandRefused, ControlledBroker
from ottla.control.faults.registry import Faults
from ottla.control.history import EventHistory
from ottla.control.page_server import HOST, PageServer
from ottla.control.pages import Reach
from ottla.protocol.steps import Steps

T = TypeVar("T")


def console_server(
    bootstrap: str,
    connecting: Connecting,
    *,
    host: str = HOST,
    port: int = 0,
    is_read_only: bool = False,
    of_cluster: Sequence[str] = (),
    registry: Registry | None = None,
) -> PageServer:
    """Return the HTTP server of a cluster's console. Raises OSError if the port cannot be bound.

    The pages show equivalent ``ottla`` commands; ``of_cluster`` has their connection options besides ``--bootstrap``. ``registry``
    is the schema registry.
    """
    kept = KeptReads()
    console = Console(
        partial(secured_client, connecting),
        None if registry is None else RegistryValues(lambda: registry),
        is_read_only=is_read_only,
        of_cluster=of_cluster,
        view_of=lambda client: ClientView(client, kept),
        changed=kept.clear,
    )
    loop = _NoLoop()

    def reach(is_closed: threading.Event, has_left: Callable[[], bool]) -> Reach:
        return Reach(
            bootstrap=bootstrap,
            own_addresses=frozenset(),
            open_connection=_no_broker,
            loop=loop,
            is_closed=is_closed,
            has_left=has_left,
        )

    return PageServer(console, reach, port, host)


def _no_broker() -> NoReturn:
    raise CommandRefused(409, "ottla console cannot do this; use the console of an ottla broker")


class _MachineClock:
    @staticmethod
    def now_ms() -> int:
        return time.time_ns() // 1_000_000


class _Parts:
    """Replaces the broker in `ControlledBroker` for a console that belongs to no broker. Pages read only the broker's clock."""

    clock = _MachineClock()

    @property
    def broker(self) -> _Parts:
        return self


class _NoLoop:
    """A `LoopReader` without a broker: there are no faults and no history, and the clock is the machine's."""

    def __init__(self) -> None:
        self._controlled = ControlledBroker(serving=cast(Any, _Parts()), faults=Faults(), history=EventHistory())

    def read(self, read: Callable[[ControlledBroker], T], /) -> T:
        return read(self._controlled)

    def in_steps(self, read: Callable[[ControlledBroker], Steps[T]], /) -> T:
        _no_broker()
