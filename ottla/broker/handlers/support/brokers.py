"""The brokers of the cluster, with their addresses on a listener (KRaftMetadataCache)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

import msgspec

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.controller.policies import has_online_directory
from ottla.coordinator.metadata.broker_registration import BrokerRegistration
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import PartitionRegistration


class Ports(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig

    def advertised(self, listener: str) -> tuple[str, int]: ...


class BrokerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one broker on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


def known_brokers(ports: Ports, listener: str, *, fenced: bool = False) -> list[BrokerAddress]:
    """The addresses, by id, of this broker and of brokers that have registered the listener. ``fenced`` includes fenced brokers."""
    own = ports.live_config.settings
    host, port = ports.advertised(listener)
    brokers = [BrokerAddress(node_id=own.node_id, host=host, port=port, rack=own.broker_rack)]
    if ports.cluster.is_alone:
        return brokers
    for broker in ports.cluster.state.registrations.brokers.values():
        if broker.broker_id != own.node_id and (fenced or not broker.is_fenced):
            brokers += _on(broker, listener)
    return sorted(brokers, key=lambda broker: broker.node_id)


def broker_address(ports: Ports, listener: str, node_id: int) -> BrokerAddress | None:
    """The address of a broker on a listener; None if the broker is unknown, fenced or without this listener."""
    own = ports.live_config.settings
    if node_id == own.node_id or ports.cluster.is_alone:
        host, port = ports.advertised(listener)
        return BrokerAddress(node_id=own.node_id, host=host, port=port, rack=own.broker_rack)
    broker = ports.cluster.state.registrations.brokers.get(node_id)
    return next(iter(_on(broker, listener)), None) if broker is not None and not broker.is_fenced else None


def offline_replicas(state: ClusterState, partition: PartitionRegistration, alive: Container[int]) -> list[int]:
    """The replicas whose broker is not among ``alive``, or has not registered the replica's log directory."""
    return [r for r in partition.replicas if r not in alive or not has_online_directory(state, partition, r)]


def addresses_of(ports: Ports, listener: str, node_ids: Iterable[int]) -> list[BrokerAddress]:
    """The addresses of the given brokers, sorted by id. Brokers without an address on the listener are left out."""
    found = (broker_address(ports, listener, node_id) for node_id in sorted(node_ids))
    return [broker for broker in found if broker is not None]


def _on(broker: BrokerRegistration, listener: str) -> list[BrokerAddress]:
    return [
        BrokerAddress(node_id=broker.broker_id, host=e.host, port=e.port, rack=broker.rack, is_fenced=broker.is_fenced)
        for e in broker.listeners
        if e.name == listener
    ]
