"""Describes the cluster as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.brokers import BrokerConnections, BrokerNode, nodes_of
from ottla.client.leaderless import LeaderlessPartition, leaderless


@dataclass(slots=True, frozen=True)
class ClusterDescription:
    """``controller`` is the id in Metadata, -1 where there is none; in KRaft it is any broker. ``features`` are levels by name."""

    cluster_id: str
    controller: int
    brokers: list[BrokerNode]
    features: dict[str, int]
    leaderless: list[LeaderlessPartition]


def describe(brokers: BrokerConnections) -> ClusterDescription:
    metadata = brokers.until_final("asking for the cluster", lambda: brokers.metadata([]))
    features = brokers.until_final("asking for the features", lambda: brokers.anyone().features)
    return ClusterDescription(
        cluster_id=metadata.cluster_id or "",
        controller=metadata.controller_id,
        brokers=[node for _, node in sorted(nodes_of(metadata).items())],
        features=dict(sorted(features.items())),
        leaderless=leaderless(brokers),
    )
