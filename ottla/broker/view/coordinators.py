"""Finds the shard of a group or transactional id, and lists the brokers that coordinate all other groups and ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.view.partitions import log_state
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import partition_for

T = TypeVar("T")


class Ports(Protocol):
    cluster: ClusterCommands
    partitions: Partitions


class Listed(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A list of groups or transactional ids. ``missing`` has a line for each broker whose groups or ids are not in the list."""

    rows: list[T]
    missing: list[str]


class NumberedShard(Protocol):
    """A coordinator's shard of one partition of its topic."""

    partition: int


S = TypeVar("S", bound=NumberedShard)


def elsewhere(state: ClusterState, topic: str, what: str) -> list[str]:
    """Return a line for each other broker that leads partitions of a coordinator's topic. ``what`` is, for example, ``groups``."""
    known = state.topics.get(topic)
    if known is None or state.is_alone:
        return []
    leaders = sorted({partition.leader for partition in known.partitions} - {state.node_id})
    return [
        f"{what} of broker {leader}, which its own console shows" if leader >= 0 else f"{what} without a coordinator at present"
        for leader in leaders
    ]


def shard_of(ports: Ports, topic: str, shards: Iterable[S], key: str, what: str) -> S | None:
    """Return the shard of a group or transactional id, or None if its log is empty, or its topic does not exist.

    ``what`` names the id in errors. Raises NOT_COORDINATOR if another broker coordinates the id, COORDINATOR_NOT_AVAILABLE if its
    partition has no leader, and COORDINATOR_LOAD_IN_PROGRESS while this broker does not serve that partition.
    """
    state = ports.cluster.state
    known = state.topics.get(topic)
    if known is None:
        return None
    index = partition_for(key, known.partition_count)
    for shard in shards:
        if shard.partition == index:
            return shard
    leader = known.partitions[index].leader
    if state.is_alone or leader == state.node_id:
        log = log_state(ports, topic, index)
        if log is not None and not log.log_end_offset:
            return None
        raise KafkaError(
            Code.COORDINATOR_LOAD_IN_PROGRESS, f"the coordinator of {what} is not available: {topic}-{index} is not loaded"
        )
    if leader < 0:
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, f"{what} has no coordinator at present: {topic}-{index} has no leader")
    raise KafkaError(Code.NOT_COORDINATOR, f"broker {leader} coordinates {what}; see the console of that broker")
