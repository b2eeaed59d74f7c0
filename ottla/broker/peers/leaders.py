"""Finds the leader of a partition in the cluster's metadata, and the connection to it."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.peers.peer import Peer
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import NO_LEADER


class Peers(Protocol):
    """The connections to other brokers (broker.peers.directory.BrokerPeers)."""

    def peer(self, broker_id: int) -> Peer | None:
        """The connection to a broker; None if it is not registered or is fenced."""
        ...


def leader_of(state: ClusterState, topic: str, index: int) -> int:
    """The id of the broker that leads a partition; -1 without a leader, or if the partition does not exist."""
    known = state.topics.get(topic)
    if known is None or not 0 <= index < known.partition_count:
        return NO_LEADER
    return known.partitions[index].leader
