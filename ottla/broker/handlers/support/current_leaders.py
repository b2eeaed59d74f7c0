"""The current leader of a partition, for a Produce or Fetch response of a broker that does not lead it (KIP-951)."""

from __future__ import annotations

from ottla.broker.handlers.support.brokers import Ports, addresses_of
from ottla.broker.partitions.partitions import NotLeader
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages import fetch, produce


def leader_for_produce(error: KafkaError) -> produce.LeaderIdAndEpoch | None:
    if not isinstance(error, NotLeader):
        return None
    return produce.LeaderIdAndEpoch(leader_id=error.leader_id, leader_epoch=error.leader_epoch)


def leader_for_fetch(error: KafkaError) -> fetch.LeaderIdAndEpoch | None:
    if not isinstance(error, NotLeader):
        return None
    return fetch.LeaderIdAndEpoch(leader_id=error.leader_id, leader_epoch=error.leader_epoch)


def with_leader_addresses_for_produce(ports: Ports, listener: str, response: produce.ProduceResponse) -> produce.ProduceResponse:
    """Add the addresses of the leaders that the partitions of a Produce response name."""
    named = [p.current_leader.leader_id for t in response.responses for p in t.partition_responses if p.current_leader is not None]
    if not named:
        return response
    response.node_endpoints = [
        produce.NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in addresses_of(ports, listener, set(named))
    ]
    return response


def with_leader_addresses_for_fetch(ports: Ports, listener: str, response: fetch.FetchResponse) -> fetch.FetchResponse:
    """Add the addresses of the leaders that the partitions of a Fetch response name."""
    named = [p.current_leader.leader_id for t in response.responses for p in t.partitions if p.current_leader is not None]
    response.node_endpoints = [
        fetch.NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in addresses_of(ports, listener, set(named))
    ]
    return response
