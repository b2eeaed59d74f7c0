"""The current leader of a partition, for a share group member that contacted another broker (KafkaApis.getCurrentLeader)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.handlers.support.brokers import BrokerAddress, Ports, addresses_of
from ottla.protocol.errors import Code
from ottla.protocol.messages import share_acknowledge, share_fetch

_NAMING_LEADERS = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)


class _Leader(Protocol):
    leader_id: int
    leader_epoch: int


class _Partition(Protocol):
    partition_index: int
    error_code: int

    @property
    def current_leader(self) -> _Leader: ...


class _Topic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[_Partition]: ...


def name_leaders_for_fetch(ports: Ports, listener: str, response: share_fetch.ShareFetchResponse) -> None:
    response.node_endpoints = [
        share_fetch.NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in _name_leaders(ports, listener, response.responses)
    ]


def name_leaders_for_acknowledge(ports: Ports, listener: str, response: share_acknowledge.ShareAcknowledgeResponse) -> None:
    response.node_endpoints = [
        share_acknowledge.NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in _name_leaders(ports, listener, response.responses)
    ]


def _name_leaders(ports: Ports, listener: str, topics: Sequence[_Topic]) -> list[BrokerAddress]:
    """Set the current leader of each partition whose error says that another broker leads it; returns the leaders' addresses."""
    leaders: set[int] = set()
    for topic in topics:
        for partition in topic.partitions:
            known = ports.cluster.state.topics_by_id.get(topic.topic_id)
            if partition.error_code in _NAMING_LEADERS and known is not None:
                registration = known.partitions[partition.partition_index]
                partition.current_leader.leader_id = registration.leader
                partition.current_leader.leader_epoch = registration.leader_epoch
                leaders.add(registration.leader)
    return addresses_of(ports, listener, leaders)
