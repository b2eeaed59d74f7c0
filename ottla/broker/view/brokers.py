"""The brokers of the cluster, with their addresses for clients."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.addresses import joined_address
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.broker.handlers.support.brokers import known_brokers
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.network.addresses import Addresses


class Ports(Protocol):
    addresses: Addresses
    cluster: ClusterCommands
    live_config: LiveConfig

    def advertised(self, listener: str) -> tuple[str, int]: ...


class ViewedBroker(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int
    address: str
    """Host and port for clients, on the first listener."""


def brokers(ports: Ports) -> list[ViewedBroker]:
    """Return the brokers that serve clients, ordered by id."""
    listener = ports.addresses.all_advertised[0][0]
    return [
        ViewedBroker(node_id=broker.node_id, address=joined_address((broker.host, broker.port)))
        for broker in known_brokers(ports, listener)
    ]


def tls_listeners(ports: Ports) -> list[str]:
    """Return the names of this broker's listeners with TLS."""
    return [name for name, _, _, protocol in ports.addresses.all_advertised if SecurityProtocol(protocol).has_tls]
