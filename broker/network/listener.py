"""Listeners and the connections they have accepted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from broker.config.definitions import ConfigError
from broker.config.settings import connection_limits

if TYPE_CHECKING:
    from broker.config.settings import Settings
    from broker.network.connection import Connection


IDLE_TICK_MS = 1_000


@dataclass(slots=True)
class Endpoint:
    """One ``NAME://host:port`` of ``listeners`` or ``advertised.listeners``; an empty host is every interface."""

    name: str
    host: str
    port: int


def parse_endpoints(texts: tuple[str, ...], key: str) -> list[Endpoint]:
    """Raises `ConfigError`."""
    endpoints = []
    for text in texts:
        try:
            parts = urlsplit(text)
            endpoints.append(Endpoint(text.partition(":")[0].upper(), parts.hostname or "", parts.port or 0))
        except ValueError:
            raise ConfigError(f"{key}: {text!r} is not NAME://host:port") from None
        if "://" not in text:
            raise ConfigError(f"{key}: {text!r} is not NAME://host:port")
    return endpoints


class Connections:
    """The open connections of a broker, with limits on their number, in all and by address."""

    def __init__(self, settings: Settings) -> None:
        self.tick = 0
        self._open: set[Connection] = set()
        self._by_peer: Counter[str] = Counter()
        self._next_id = 0
        self.set_limits(settings)

    def set_limits(self, settings: Settings) -> None:
        self._limit = settings.max_connections
        self._limit_per_peer = settings.max_connections_per_ip
        self._limits_by_peer = connection_limits(settings.max_connections_per_ip_overrides)
        self._max_idle_ticks = max(1, settings.connections_max_idle_ms // IDLE_TICK_MS)

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: Connection) -> bool:
        """False when there are too many."""
        self._next_id += 1
        connection.connection_id = self._next_id
        peer = connection.peer
        if len(self._open) >= self._limit or self._by_peer[peer] >= self._limits_by_peer.get(peer, self._limit_per_peer):
            return False
        self._open.add(connection)
        self._by_peer[peer] += 1
        return True

    def close_idle(self) -> None:
        """Called every `IDLE_TICK_MS`; a connection notes the tick of its last bytes, which is cheaper than a clock."""
        self.tick += 1
        for connection in list(self._open):
            if self.tick - connection.last_tick > self._max_idle_ticks:
                connection.close("idle")

    def closed(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._by_peer[connection.peer] -= 1
            if not self._by_peer[connection.peer]:
                del self._by_peer[connection.peer]

    def close_all(self, reason: str) -> None:
        for connection in list(self._open):
            connection.close(reason)
