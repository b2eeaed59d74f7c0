"""What outlives a broker in its process, where another takes its place on the same addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from ottla.broker.env import Listening
from ottla.broker.network.addresses import Addresses

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class ServedMetrics(Listening, Protocol):
    """Metrics that are served."""

    def collect_from(self, collect: Callable[[], list[Metric]]) -> None:
        """From now on ``collect`` says what there is to tell; until then nobody does."""
        ...


ServeMetrics = Callable[[str, int], ServedMetrics]
"""Serves at a host and a port. Raises OSError and ValueError for an address that cannot be had."""


class Inherited(msgspec.Struct, kw_only=True):
    """What a broker has from the one whose place it takes in the same process, so that clients take it for the same cluster."""

    cluster_id: str
    first_producer_id: int
    """Producers of the one before may still be about: their ids are nobody else's."""
    addresses: Addresses
    """Which are listened on already: whoever connects in between waits in the operating system's queue."""
    metrics: ServedMetrics | None
