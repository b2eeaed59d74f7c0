"""Describes a cluster: its brokers, controller, features, leaderless partitions and stray directories."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin.leaderless import LeaderlessPartition, leaderless
from ottla.client.admin.strays import Stray, directory_reports
from ottla.client.cluster import BrokerConnections, BrokerNode, nodes_of
from ottla.client.errors import ClientError, KafkaAnswered, TimedOut, UnsupportedRequest, check
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

FENCED_FROM = 2
"""The first version of DescribeCluster that can include fenced brokers (KIP-1073)."""


@dataclass(slots=True, frozen=True)
class Controller:
    """The leader of the metadata quorum. ``host`` and ``port`` are None if DescribeQuorum does not return them."""

    node_id: int
    host: str | None
    port: int | None


@dataclass(slots=True, frozen=True)
class ClusterDescription:
    """A cluster. ``controller`` is None if the brokers cannot reach a controller. ``features`` has the level of each feature."""

    cluster_id: str
    controller: Controller | None
    brokers: list[BrokerNode]
    fenced: frozenset[int]
    """Ids of fenced brokers, which Metadata omits."""
    features: dict[str, int]
    leaderless: list[LeaderlessPartition]
    strays: list[Stray]


def describe(brokers: BrokerConnections) -> ClusterDescription:
    metadata = brokers.until_final("asking for the cluster", lambda: brokers.metadata([]))
    features = brokers.features()
    nodes, fenced = brokers.until_final("asking for the brokers", lambda: _brokers(brokers, nodes_of(metadata)))
    without_leader = leaderless(brokers)
    return ClusterDescription(
        cluster_id=metadata.cluster_id or "",
        controller=_controller(brokers),
        brokers=[node for _, node in sorted(nodes.items())],
        fenced=fenced,
        features=dict(sorted(features.items())),
        leaderless=without_leader,
        strays=directory_reports(brokers, [node for node in nodes.values() if node.node_id not in fenced]).strays,
    )


def _brokers(brokers: BrokerConnections, known: dict[int, BrokerNode]) -> tuple[dict[int, BrokerNode], frozenset[int]]:
    """Return all brokers by id, and the ids of fenced brokers. A broker that is too old to list fenced brokers gets no request, and
    ``known``, the brokers in Metadata, is returned."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    connection = brokers.anyone()
    try:
        if connection.version(request) < FENCED_FROM:
            return known, frozenset()
    except UnsupportedRequest:
        return known, frozenset()
    answer = brokers.ask(connection, request)
    check("the cluster's brokers", answer.error_code, answer.error_message)
    nodes = {b.broker_id: BrokerNode(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers}
    return nodes, frozenset(b.broker_id for b in answer.brokers if b.is_fenced)


def _controller(brokers: BrokerConnections) -> Controller | None:
    """Return the leader of the quorum (DescribeQuorum). In KRaft, Metadata and DescribeCluster return any broker's id as
    controller."""
    request = DescribeQuorumRequest(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])])
    try:
        answer = brokers.ask(brokers.anyone(), request)
        check("the controller", answer.error_code, answer.error_message)
        partition = answer.topics[0].partitions[0]
        check("the controller", partition.error_code, partition.error_message)
    except (KafkaAnswered, TimedOut, UnsupportedRequest, OSError):
        # A broker that cannot reach a controller responds only after 30 s, so the request may time out.
        return None
    except IndexError:
        raise ClientError("the broker does not describe a metadata quorum") from None
    if partition.leader_id < 0:
        return None
    for node in answer.nodes:
        if node.node_id == partition.leader_id and node.listeners:
            return Controller(node.node_id, node.listeners[0].host, node.listeners[0].port)
    return Controller(partition.leader_id, None, None)
