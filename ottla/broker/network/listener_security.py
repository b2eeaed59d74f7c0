"""Creates the connections of all listeners, with or without TLS and SASL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.config.security_protocols import SecurityProtocol, protocol_of
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import Endpoint

if TYPE_CHECKING:
    from ottla.broker.network.secured import Ports, SecuredListener


class ListenerSecurity:
    """Knows how the clients of each listener connect and authenticate. Raises `ConfigError` for settings that cannot be used."""

    def __init__(self, ports: Ports, config: BrokerConfig, endpoints: Sequence[Endpoint]) -> None:
        self._ports = ports
        self._secured: dict[str, SecuredListener] = {}
        protocols = {e.name: protocol_of(config.settings.listener_security_protocol_map, e.name) for e in endpoints}
        secured = {name: protocol for name, protocol in protocols.items() if protocol is not SecurityProtocol.PLAINTEXT}
        if secured:
            # Imported here, because plain listeners do not need these modules.
            from ottla.broker.network.secured import SecuredListener
            from ottla.broker.network.tls import Handshakes

            handshakes = Handshakes(ports.connections.errors)
            self._secured = {name: SecuredListener(ports, config, name, protocol, handshakes) for name, protocol in secured.items()}

    def connection(self, listener: str) -> asyncio.BufferedProtocol:
        """The protocol of a new connection of a listener."""
        secured = self._secured.get(listener)
        return Connection(self._ports, listener) if secured is None else secured.connection()
