"""The optional parts of a broker's process: the control API and the schema registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from ottla.broker.hooks.interception import Interception
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.loop.env import TimeSource
from ottla.broker.process.running import Owner
from ottla.broker.process.serving import Serving


class ControlEndpoint(Protocol):
    """The HTTP server of the control API (`ottla.control.http_api`)."""

    url: str
    token: str
    pages_url: str | None
    """The URL of the console, with the token; None if the console is disabled."""

    def serve(self) -> None:
        """Start to answer requests, including requests that have already arrived."""
        ...

    def close(self) -> None: ...


class RegistryEndpoint(Protocol):
    """The HTTP server of the schema registry (`ottla.registry.server`)."""

    url: str
    token: str | None
    """The token that clients need; None if no token is needed."""

    def serve(self) -> None:
        """Start to answer requests, including requests that have already arrived."""
        ...

    def close(self) -> None: ...


class OptionalParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of `ottla.control` and `ottla.registry` that the process uses. A part that is None is not used."""

    begin: Callable[[], None] | None = None
    """Called right after logging was configured."""
    open_control_api: Callable[[Serving], ControlEndpoint] | None = None
    """Called before the broker starts. The control API answers after `ControlEndpoint.serve`. Raises `ConfigError`."""
    open_schema_registry: Callable[[Serving], RegistryEndpoint] | None = None
    """Called before the broker starts, like ``open_control_api``. Raises `ConfigError`."""
    owner: Owner | None = None
    clock: TimeSource | None = None
    """Replaces the machine's clock."""
    interception: Interception | None = None
    """Injects faults into requests and transactions."""
    transaction_listener: TransactionListener | None = None
    """Notified of events of transactional ids."""
