"""Creates the connections of all listeners, with or without TLS and SASL, and local connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.config.security_protocols import SecurityProtocol, protocol_of
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.connection import Connection
from ottla.broker.network.dispatch import AuthenticatingClient, Dispatcher, Dispatching
from ottla.broker.network.listener import Endpoint
from ottla.security.principal import INTERNAL

if TYPE_CHECKING:
    from ottla.broker.network.secured import Ports, SecuredListener


class ListenerSecurity:
    """Knows how the clients of each listener connect and authenticate. Raises `ConfigError` for settings that cannot be used."""

    def __init__(self, ports: Ports, config: BrokerConfig, endpoints: Sequence[Endpoint]) -> None:
        self._ports = ports
        self._secured: dict[str, SecuredListener] = {}
        protocols = {e.name: protocol_of(config.settings.listener_security_protocol_map, e.name) for e in endpoints}
        secured = {name: protocol for name, protocol in protocols.items() if protocol is not SecurityProtocol.PLAINTEXT}
        names = [endpoint.name for endpoint in endpoints]
        # Local clients have no credentials for other brokers: they get the addresses of a plain listener if there is one.
        self._local = Local(ports, next((name for name in names if name not in secured), names[0]))
        self.needs_credentials = names[0] in secured or bool(config.settings.authorizer_class_name)
        """Whether a client of the first listener needs credentials or ACLs."""
        if secured:
            # Imported here, because plain listeners need no TLS and SASL.
            from ottla.broker.network.secured import SecuredListener
            from ottla.broker.network.tls import Handshakes

            handshakes = Handshakes(ports.connections.errors)
            self._secured = {name: SecuredListener(ports, config, name, protocol, handshakes) for name, protocol in secured.items()}

    def connection(self, listener: str) -> asyncio.BufferedProtocol:
        """The asyncio protocol of a new connection of a listener."""
        secured = self._secured.get(listener)
        return Connection(self._ports, listener) if secured is None else secured.connection()

    def local_connection(self) -> asyncio.BufferedProtocol:
        """The asyncio protocol of a new local connection (`loop.local_sockets`)."""
        return Connection(self._ports, self._local.listener, self._local)


class Local:
    """Authenticates clients of local connections, which may do everything (`dispatch.Secured`)."""

    def __init__(self, ports: Ports, listener: str) -> None:
        self._ports = ports
        self.listener = listener
        """The listener whose addresses local clients get."""

    def dispatcher(self, connection: AuthenticatingClient, limit_frames: Callable[[int], None]) -> Dispatching:
        return Dispatcher(self._ports, self.listener, connection.as_client._replace(peer=LOOPBACK_PEER), INTERNAL)


LOOPBACK_PEER = "127.0.0.1"
"""The address of local clients in request logs and for ACLs."""
