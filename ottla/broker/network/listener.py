"""The settings of listeners, and the connections of all listeners with their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog

from ottla.addresses import joined_address, split_address
from ottla.arguments import BadArgument
from ottla.broker.config.definitions import CREATION_RATE, LISTENER_LIMITS, MAX_CONNECTIONS, ConfigError
from ottla.broker.config.security_protocols import SecurityProtocol, security_protocols
from ottla.broker.config.settings import BrokerConfig, Settings, connection_limits
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.memory_budgets import RequestBudget, ResponseBudget
from ottla.broker.loop.env import Clock, Env, Timers
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.network.framing import ReceiveBuffers
from ottla.protocol.config_effects import LISTENER_PREFIX

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import Dispatching
    from ottla.coordinator.quota.accept_limits import AcceptLimits

_MISSPELT = 0.75
"""Minimum similarity, 0 to 1, at which a listener's name counts as a misspelt security protocol."""
UNLIMITED_RATE = 2**31 - 1
"""The default of ``max.connection.creation.rate``, in connections per second."""
IDLE_TICK_MS = 1_000
CLOSING_TICKS = 10
"""Number of ticks of `IDLE_TICK_MS` that a connection has after `Connection.close` to send its last responses."""

log = structlog.get_logger("connection")


class Endpoint(msgspec.Struct):
    """One ``NAME://host:port`` of ``listeners`` or ``advertised.listeners``; an empty host means all interfaces."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return ``host:port``, with brackets around an IPv6 address."""
        return joined_address((self.host, self.port))


def parse_endpoints(texts: tuple[str, ...], key: str) -> list[Endpoint]:
    """Parse the endpoints in the setting ``key``. Raises `ConfigError`."""
    endpoints = []
    for text in texts:
        name, separator, address = text.partition("://")
        try:
            if not separator or not name:
                raise BadArgument(text)
            endpoints.append(Endpoint(name.upper(), *split_address(address)))
        except BadArgument:
            raise ConfigError(f"{key}: {text!r} is not NAME://host:port, as in PLAINTEXT://127.0.0.1:9092") from None
    twice = [name for name, count in Counter(e.name for e in endpoints).items() if count > 1]
    if twice:
        raise ConfigError(f"{key}: {twice[0]} occurs more than once; give each listener its own name")
    return endpoints


def advertised_hosts(settings: Settings) -> frozenset[str]:
    """The names and addresses by which clients know the broker, in lower case. Raises `ConfigError`."""
    advertised = parse_endpoints(settings.advertised_listeners or (), "advertised.listeners")
    return frozenset(endpoint.host.lower() for endpoint in advertised)


def client_endpoints(settings: Settings) -> list[Endpoint]:
    """The listeners for clients.

    Controller listeners are left out, because ottla opens no socket for them. Raises `ConfigError`.
    """
    controllers = {name.upper() for name in settings.controller_listener_names or ()}
    listeners = parse_endpoints(settings.listeners, "listeners")
    protocols = security_protocols(settings.listener_security_protocol_map)
    endpoints = [e for e in listeners if e.name not in controllers]
    if not endpoints:
        raise ConfigError("listeners: there is no listener for clients")
    for endpoint in endpoints:
        if endpoint.name not in protocols:
            raise _without_protocol(endpoint.name)
    names = [e.name for e in listeners]
    for advertised in parse_endpoints(settings.advertised_listeners or (), "advertised.listeners"):
        if advertised.name not in names and advertised.name not in controllers:
            raise ConfigError(f"advertised.listeners: {advertised.name} is not one of listeners, which are {', '.join(names)}")
        if advertised.host in _EVERY_INTERFACE:
            raise ConfigError(f"advertised.listeners: clients cannot connect to {advertised.host}; give a name or an address")
    return endpoints


def _without_protocol(name: str) -> ConfigError:
    """The error for a listener without a security protocol: its name may be a misspelt protocol."""
    from difflib import get_close_matches

    known = ", ".join(SecurityProtocol.__members__)
    meant = get_close_matches(name[:200], SecurityProtocol.__members__, n=1, cutoff=_MISSPELT)
    hint = f"did you mean {meant[0]}?" if meant else f"give {name}:PROTOCOL there, with one of {known}"
    return ConfigError(f"listeners: {name} is not in listener.security.protocol.map; {hint}")


def controller_endpoints(settings: Settings) -> list[Endpoint]:
    """The listeners of a controller, to which brokers connect. Raises `ConfigError`."""
    controllers = {name.upper() for name in settings.controller_listener_names or ()}
    endpoints = [e for e in parse_endpoints(settings.listeners, "listeners") if e.name in controllers]
    if not endpoints:
        names = ", ".join(sorted(controllers))
        raise ConfigError(f"listeners: no listener is in controller.listener.names, which are {names}")
    return endpoints


_EVERY_INTERFACE = ("0.0.0.0", "::")


class Accepted(Protocol):
    """The part of a connection that `Connections` uses."""

    connection_id: int
    peer: str
    last_tick: int
    dispatcher: Dispatching

    @property
    def is_closing(self) -> bool: ...

    def close(self, reason: str) -> None: ...

    def abort(self, reason: str) -> None: ...


class ListenerLimits:
    """The connections and new connections per second that each listener may have. Implements `live_config.Reconfigurable`.

    The settings are `LISTENER_LIMITS`, for the whole server and for single listeners.
    """

    def __init__(self, clock: Clock, config: BrokerConfig, listeners: Collection[str], protected: str | None) -> None:
        """``protected``: the listener to which limits of the whole broker do not apply, or None."""
        self._clock = clock
        self.listeners, self._protected = listeners, protected
        self._limits: AcceptLimits | None = None
        self.max_connections: dict[str, int] = {}
        """Limits on the number of open connections, by listener."""
        prefixes = ("", *(f"{LISTENER_PREFIX}{name.lower()}." for name in listeners))
        self.reloads = frozenset(f"{prefix}{name}" for prefix in prefixes for name in LISTENER_LIMITS)
        self.use(config)

    def check(self, config: BrokerConfig) -> None:
        self._of_listeners(config, MAX_CONNECTIONS)
        self._of_listeners(config, CREATION_RATE)

    def _of_listeners(self, config: BrokerConfig, name: str) -> dict[str, int]:
        return {listener: config.limit_of(listener, name) for listener in self.listeners}

    def use(self, config: BrokerConfig) -> None:
        settings = config.settings
        try:
            self.max_connections = self._of_listeners(config, MAX_CONNECTIONS)
            limits = self._of_listeners(config, CREATION_RATE)
        except ConfigError as error:
            log.error("dynamic_config_ignored", reason=str(error))
            return
        if min(settings.max_connection_creation_rate, *limits.values()) == UNLIMITED_RATE:
            self._limits = None
            return
        if self._limits is None:
            from ottla.coordinator.quota.accept_limits import AcceptLimits
            from ottla.coordinator.quota.sampled import Windows

            windows = Windows(count=settings.quota_window_num, size_ms=settings.quota_window_size_seconds * 1_000)
            self._limits = AcceptLimits(windows, self._protected)
        self._limits.set(settings.max_connection_creation_rate, limits)

    def accepted_after_ms(self, listener: str) -> int:
        """Record a new connection; returns for how many ms it must not be read."""
        return 0 if self._limits is None else self._limits.accepted_after_ms(listener, self._clock.steady_ms())

    def unrecord(self, listener: str) -> None:
        """Undo the last record, because the connection is refused."""
        if self._limits is not None:
            self._limits.unrecord(listener)

    def throttle_times(self) -> dict[str, float]:
        """The mean throttle times of connections by listener, in ms (`Sampled.mean`)."""
        now_ms = self._clock.steady_ms()
        times = {} if self._limits is None else self._limits.throttle_times
        return {listener: sampled.mean(now_ms) for listener, sampled in times.items()}


class Connections:
    """The open connections of a broker, with limits on their number in total and by client address."""

    def __init__(
        self, env: Env, settings: Settings, most: int, on_closed: Callable[[int], None] = lambda connection_id: None
    ) -> None:
        """``most``: how many connections the file descriptors allow. ``on_closed`` is called with the id of a closed connection."""
        self._timers: Timers = env
        self.errors = RepeatedErrors(env, log)
        """Logs why connections are closed, with few lines for a client that reconnects and is closed again and again."""
        self.tick = 0
        self._most = most
        self.buffers = ReceiveBuffers()
        self.request_budget = RequestBudget(env, settings.queued_max_request_bytes, settings.ottla_request_stall_ms)
        self.response_budget = ResponseBudget(env, settings.ottla_queued_max_response_bytes, settings.ottla_response_stall_ms)
        # The open connections in order of opening, with their listeners.
        self._open: dict[Accepted, str] = {}
        self._refused: set[Accepted] = set()
        """Open connections that connection_creation_rate has refused. As in Kafka, they are not counted as opened."""
        self.opened_by_listener: Counter[str] = Counter()
        self.closed_by_listener: Counter[str] = Counter()
        self._by_peer: Counter[str] = Counter()
        self._next_id = 0
        self._on_closed = on_closed
        self.of_listeners: ListenerLimits | None = None
        self.set_limits(settings)

    def set_limits(self, settings: Settings) -> None:
        self.limit = min(settings.max_connections, self._most)
        self._limit_per_peer = settings.max_connections_per_ip
        self._limits_by_peer = connection_limits(settings.max_connections_per_ip_overrides)
        self._max_idle_ticks = max(1, settings.connections_max_idle_ms // IDLE_TICK_MS)

    def __len__(self) -> int:
        return len(self._open)

    def all(self) -> list[Accepted]:
        """Return the open connections in order of opening."""
        return list(self._open)

    def opened(self, connection: Accepted, listener: str, quotas: ClientQuotaEnforcement, throttle: Callable[[int], None]) -> None:
        """Count a new connection and give it an id. If there are too many connections, it is closed.

        If there are more new connections per second than ``max.connection.creation.rate`` allows, ``throttle`` delays reading it.
        If its address exceeds ``connection_creation_rate``, the connection is closed after a delay without being read, as in Kafka,
        so that the client does not connect again at once.
        """
        self._next_id += 1
        connection.connection_id = self._next_id
        peer = connection.peer
        # A local connection has no address and is limited only by the file descriptors: the broker's console must be able to raise
        # a limit that clients have reached.
        if len(self._open) >= self._most or (peer and self._is_full(listener, peer)):
            connection.close("there are too many connections")
            return
        self._open[connection] = listener
        self._by_peer[peer] += 1
        if peer and self.of_listeners is not None and (delay_ms := self.of_listeners.accepted_after_ms(listener)):
            throttle(delay_ms)
        if peer and quotas.entities and (delay_ms := quotas.refuse_connection_after_ms(peer, listener)):
            self._refused.add(connection)
            if self.of_listeners is not None:
                self.of_listeners.unrecord(listener)
            self._timers.call_by_clock(delay_ms, lambda: connection.close("the client's address exceeds connection_creation_rate"))
            throttle(delay_ms + 1)
        else:
            self.opened_by_listener[listener] += 1

    def ended_in_handshake(self, listener: str) -> None:
        """Count a connection that was closed before the end of its TLS handshake."""
        self.opened_by_listener[listener] += 1
        self.closed_by_listener[listener] += 1

    def open_at(self, listener: str) -> int:
        """The number of open connections to a listener, without those that their address's quota refuses (ConnectionQuotas)."""
        return self.opened_by_listener[listener] - self.closed_by_listener[listener]

    def _is_full(self, listener: str, peer: str) -> bool:
        if len(self._open) >= self.limit or self._by_peer[peer] >= self._limits_by_peer.get(peer, self._limit_per_peer):
            return True
        if self.of_listeners is None:
            return False
        return self.open_at(listener) >= self.of_listeners.max_connections.get(listener, self.limit)

    def close_idle(self) -> None:
        """Close idle connections (connections.max.idle.ms), and abort closed connections whose client does not read its last
        responses. Called every `IDLE_TICK_MS`.

        Each connection stores the tick of its last bytes, which is cheaper than reading a clock.
        """
        self.tick += 1
        for connection in list(self._open):
            idle_ticks = self.tick - connection.last_tick
            if connection.is_closing:
                if idle_ticks > CLOSING_TICKS:
                    connection.abort(f"the client did not read its last responses within {CLOSING_TICKS * IDLE_TICK_MS // 1_000} s")
            elif idle_ticks > self._max_idle_ticks:
                connection.close("the client was idle for connections.max.idle.ms")

    def closed(self, connection: Accepted) -> None:
        if connection in self._open:
            listener = self._open.pop(connection)
            if connection in self._refused:
                self._refused.remove(connection)
            else:
                self.closed_by_listener[listener] += 1
            self._by_peer[connection.peer] -= 1
            if not self._by_peer[connection.peer]:
                del self._by_peer[connection.peer]
            self._on_closed(connection.connection_id)

    def close_all(self, reason: str) -> None:
        for connection in list(self._open):
            connection.close(reason)
