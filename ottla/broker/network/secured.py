"""The security of the listeners of a running broker: how the clients of each listener authenticate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import structlog

from ottla.broker.config.security import SaslSettings, sasl_settings, security_protocols
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import Env
from ottla.broker.network import connection as connections
from ottla.broker.network.dispatch import AuthenticatingClient, Dispatcher, Dispatching
from ottla.broker.network.listener import client_endpoints
from ottla.broker.network.sasl_dispatch import SaslDispatcher
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.steps import Pause
from ottla.security.principal import KafkaPrincipal
from ottla.security.sasl.exchange import Mechanism
from ottla.security.sasl.plain import PLAIN, PlainMechanism
from ottla.security.sasl.scram import NUMBERS, Credential, ScramMechanism
from ottla.security.sasl.server import SaslTerms

log = structlog.get_logger("connection")


class Ports(connections.Ports[Any], Protocol):
    """The broker whose listeners are secured."""

    env: Env
    cluster_state: ClusterState


class ListenerSecurity:
    """How the clients of all listeners authenticate. Raises `ConfigError` for settings that cannot be used."""

    def __init__(self, ports: Ports, config: BrokerConfig) -> None:
        protocols = security_protocols(config.settings.listener_security_protocol_map)
        self._secured: dict[str, SecuredListener] = {}
        for endpoint in client_endpoints(config.settings):
            protocol = protocols[endpoint.name]
            sasl = sasl_settings(config, endpoint.name) if protocol.has_sasl else None
            if sasl is not None:
                self._secured[endpoint.name] = SecuredListener(ports, endpoint.name, sasl)

    def of(self, listener: str) -> SecuredListener | None:
        """How clients of a listener authenticate; None if they do not."""
        return self._secured.get(listener)


class SecuredListener:
    """How the clients of one listener authenticate (`connection.Secured`)."""

    def __init__(self, ports: Ports, name: str, sasl: SaslSettings) -> None:
        self.ports = ports
        self.name = name
        self.max_receive_bytes = sasl.max_receive_bytes
        secret = ports.env.random_uuid() + ports.env.random_uuid()
        mechanisms = {mechanism: self._mechanism(mechanism, sasl, secret) for mechanism in sasl.modules}
        self._terms = SaslTerms(mechanisms=mechanisms, max_session_ms=sasl.max_session_ms)

    def _mechanism(self, name: str, sasl: SaslSettings, secret: bytes) -> Mechanism:
        if name == PLAIN:
            return PlainMechanism(sasl.modules[name].users)
        return ScramMechanism(name, self._credential_of(NUMBERS[name]), secret)

    def _credential_of(self, mechanism: int) -> Callable[[str], Credential | None]:
        """A function that looks up the credential of a user in the cluster's metadata."""
        return lambda user: self.ports.cluster_state.credentials.by_user.get(user, {}).get(mechanism)

    def dispatcher(self, connection: AuthenticatingClient, limit_frames: Callable[[int], None]) -> Dispatching:
        return SaslDispatcher(self._terms, SaslClient(self, connection, limit_frames))


class SaslClient:
    """The client of one connection (`sasl_dispatch.Client`)."""

    __slots__ = ("_connection", "_limit", "_listener")

    def __init__(self, listener: SecuredListener, connection: AuthenticatingClient, limit: Callable[[int], None]) -> None:
        self._listener = listener
        self._connection = connection
        self._limit = limit

    @property
    def peer(self) -> str:
        return self._connection.peer

    def dispatcher(self, principal: KafkaPrincipal) -> Dispatcher:
        return Dispatcher(self._listener.ports, self._listener.name, self.peer, self._connection.connection_id, principal)

    def limit_frames(self, *, is_authenticated: bool) -> None:
        settings = self._listener.ports.live_config.settings
        self._limit(settings.socket_request_max_bytes if is_authenticated else self._listener.max_receive_bytes)

    def delay_refusal(self, then: Pause[None]) -> None:
        delay_ms = self._listener.ports.live_config.settings.connection_failed_authentication_delay_ms
        self._listener.ports.timers.call_later(delay_ms, then.end)

    def authenticated(self, principal: KafkaPrincipal, mechanism: str) -> None:
        log.debug(
            "client_authenticated", principal=str(principal), mechanism=mechanism, peer=self.peer, listener=self._listener.name
        )

    def refused(self, reason: str) -> None:
        connection = self._connection
        # In the next turn of the loop the response has been written.
        self._listener.ports.timers.call_soon(lambda: connection.close(f"authentication failed: {reason}"))

    def nonce(self) -> str:
        return (self._listener.ports.env.random_uuid() + self._listener.ports.env.random_uuid()).hex()

    def now_ms(self) -> int:
        return self._listener.ports.clock.now_ms()

    def steady_ms(self) -> int:
        return self._listener.ports.clock.steady_ms()
