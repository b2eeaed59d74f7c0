"""The parts that a broker inherits from the broker that it replaces in the same process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from ottla.broker.loop.env import Listening
from ottla.broker.network.addresses import Addresses

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class ServedMetrics(Listening, Protocol):
    """The server of the metrics."""

    def collect_from(self, collect: Callable[[], list[Metric]]) -> None:
        """Serve the metrics that ``collect`` returns from now on. Before the first call no metrics are served."""
        ...


ServeMetrics = Callable[[str, int], ServedMetrics]
"""Starts the server of the metrics at a host and a port. Raises OSError or ValueError for an address that cannot be bound."""


class Inherited(msgspec.Struct, kw_only=True):
    """The parts of a replaced broker that its successor inherits, so that clients see the same cluster."""

    first_producer_id: int
    """The first producer id of the new broker. Producers of the replaced broker may still run, so their ids are not used again."""
    lock: object | None
    """The lock of the data directory, held from one broker to the next so that no other process takes the directory."""
    addresses: Addresses
    """The open listeners. A client that connects before the new broker serves waits in the operating system's queue."""
    metrics: ServedMetrics | None
