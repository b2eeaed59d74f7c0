"""Listeners and the connections they have accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from broker.config.definitions import ConfigError

if TYPE_CHECKING:
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
    """The open connections of a broker, with a limit on their number."""

    def __init__(self, limit: int, max_idle_ms: int) -> None:
        self._limit = limit
        self._max_idle_ticks = max(1, max_idle_ms // IDLE_TICK_MS)
        self.tick = 0
        self._open: set[Connection] = set()
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: Connection) -> bool:
        """False when there are too many."""
        self._next_id += 1
        connection.connection_id = self._next_id
        if len(self._open) >= self._limit:
            return False
        self._open.add(connection)
        return True

    def close_idle(self) -> None:
        """Called every `IDLE_TICK_MS`; a connection notes the tick of its last bytes, which is cheaper than a clock."""
        self.tick += 1
        for connection in list(self._open):
            if self.tick - connection.last_tick > self._max_idle_ticks:
                connection.close("idle")

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)

    def close_all(self, reason: str) -> None:
        for connection in list(self._open):
            connection.close(reason)
