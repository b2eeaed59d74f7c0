"""The addresses on which the broker listens, and the addresses that it advertises to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from ottla.addresses import Address, joined_address
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security_protocols import SecurityProtocol, protocol_of
from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import Env, Listening, why_not_bound
from ottla.broker.network.listener import Endpoint, client_endpoints, parse_endpoints


class Closing(asyncio.BufferedProtocol):
    """Closes a connection that arrives before the server accepts requests. The client retries."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class Addresses:
    """The listeners of a server, in the order of ``listeners``."""

    def __init__(self, env: Env, settings: Settings, endpoints: list[Endpoint] | None = None) -> None:
        """``endpoints``: the listeners to open; None for the listeners for clients. Raises `ConfigError` for invalid settings."""
        self._env = env
        self._settings = settings
        self._endpoints = client_endpoints(settings) if endpoints is None else endpoints
        self._listening: list[tuple[Endpoint, Listening]] = []
        self._connection_of: Callable[[str], asyncio.BufferedProtocol] | None = None
        self._advertised: dict[str, tuple[str, int]] = {}

    async def bind(self) -> None:
        """Bind the ports, so that they can be advertised. Closes all connections until `listen` is called. Raises `ConfigError`."""
        # Check the name of the listener for brokers before the broker registers it.
        _ = self.between_brokers
        await self.listen(lambda _: Closing())

    async def listen(self, connection_of: Callable[[str], asyncio.BufferedProtocol]) -> None:
        """Open the listeners. ``connection_of`` creates the protocol of a new connection from the listener's name.

        If the listeners are already open, only ``connection_of`` is replaced. Raises `ConfigError`.
        """
        self._connection_of = connection_of
        if not self._listening:
            for endpoint in self._endpoints:
                await self._listen(endpoint)

    async def _listen(self, endpoint: Endpoint) -> None:
        def connection() -> asyncio.BufferedProtocol:
            assert self._connection_of is not None
            return self._connection_of(endpoint.name)

        try:
            listening = await self._env.listen(endpoint.host, endpoint.port, connection)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot listen on {endpoint}: {why_not_bound(error)}") from error
        self._listening.append((endpoint, listening))

    def close(self) -> None:
        for _, listening in self._listening:
            listening.close()

    def advertised(self, listener: str) -> tuple[str, int]:
        """Return the host and port that the broker advertises to clients of a listener."""
        known = self._advertised.get(listener)
        if known is None:
            known = self._advertised[listener] = self._resolve(listener)
        return known

    def _resolve(self, listener: str) -> tuple[str, int]:
        endpoint, listening = next((e, at) for e, at in self._listening if e.name == listener)
        for given in parse_endpoints(self._settings.advertised_listeners or (), "advertised.listeners"):
            if given.name == listener:
                return given.host or self._env.host_name(), given.port or listening.port
        host = self._env.host_name() if endpoint.host in ("", "0.0.0.0", "::") else endpoint.host
        return host, listening.port

    @property
    def all_advertised(self) -> tuple[tuple[str, str, int, int], ...]:
        """Name, advertised host, advertised port and number of the security protocol of each open listener."""
        protocols = self._settings.listener_security_protocol_map
        return tuple((e.name, *self.advertised(e.name), protocol_of(protocols, e.name).value) for e, _ in self._listening)

    @property
    def own(self) -> frozenset[Address]:
        """The addresses that this broker advertises to clients, one for each listener."""
        return frozenset(self.advertised(e.name) for e, _ in self._listening)

    @property
    def between_brokers(self) -> str:
        """The name of the listener for other brokers: ``inter.broker.listener.name``, the name of
        ``security.inter.broker.protocol``, or the first listener.

        Raises `ConfigError` if there is no such listener.
        """
        name = self._name_between_brokers
        if name not in self.names:
            raise ConfigError(f"inter.broker.listener.name: {name} is not one of listeners")
        return name

    @property
    def _name_between_brokers(self) -> str:
        settings = self._settings
        protocol = settings.security_inter_broker_protocol
        by_protocol = protocol if protocol != SecurityProtocol.PLAINTEXT.name else None
        return (settings.inter_broker_listener_name or by_protocol or self._endpoints[0].name).upper()

    @property
    def names(self) -> list[str]:
        return [endpoint.name for endpoint in self._endpoints]

    @property
    def protected(self) -> str | None:
        """The listener for other brokers, unless it is the only listener. Limits of the whole broker do not apply to it
        (ConnectionQuotas)."""
        return self._name_between_brokers if len(self._endpoints) > 1 else None

    @property
    def bound(self) -> dict[str, str]:
        """``host:port`` of each listener by its name. A port 0 in the settings is replaced by the assigned port."""
        return {e.name: str(Endpoint(e.name, e.host, at.port)) for e, at in self._listening}

    @property
    def bootstrap(self) -> str:
        return joined_address(self.advertised(self._endpoints[0].name))
