"""The topics of the cluster, and the size of their partitions on this broker."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Protocol

import msgspec

from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.metadata.topics import Topic
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import Pace, next_turn

PARTITIONS_PER_WORK = 10
"""Number of partitions whose replicas are counted in about 2 us."""
PARTITION_WORK = 4
"""Estimated time per partition, for its size, in units of 2 us."""


class Ports(Protocol):
    cluster: ClusterCommands
    partitions: Partitions


class TopicListing(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the cluster. ``replicas`` is the largest number of replicas of its partitions."""

    name: str
    topic_id: bytes
    partitions: int
    replicas: int
    is_internal: bool


class TopicSize(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a topic on this broker. ``waiting`` counts offsets from the last stable offset to the high watermark."""

    offsets: int
    waiting: int
    size_bytes: int


async def topics(ports: Ports) -> list[TopicListing]:
    """List all topics, in no particular order."""
    listed, pace = [], Pace()
    for known in list(ports.cluster.state.topics.values()):
        listed.append(_listing(known))
        if pace.spend(1 + known.partition_count // PARTITIONS_PER_WORK):
            await next_turn()
    return listed


def topic(ports: Ports, name: str) -> TopicListing:
    """Return one topic. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    known = ports.cluster.state.topics.get(name)
    if known is None:
        message = f"unknown topic {name!r}; create it first: ottla topic create {quote(name)}"
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, message)
    return _listing(known)


def _listing(known: Topic) -> TopicListing:
    return TopicListing(
        name=known.name,
        topic_id=known.topic_id,
        partitions=known.partition_count,
        replicas=max((len(partition.replicas) for partition in known.partitions), default=0),
        is_internal=known.is_internal,
    )


async def sizes(ports: Ports, listings: Sequence[TopicListing]) -> list[TopicSize]:
    """Return the size of some topics. Partitions that have no replica on this broker count as empty."""
    found, pace = [], Pace()
    for listing in listings:
        offsets = waiting = size_bytes = 0
        for index in range(listing.partitions):
            partition = ports.partitions.known(listing.name, index)
            if partition is not None:
                log = partition.log
                offsets += log.high_watermark - log.log_start_offset
                waiting += log.high_watermark - log.last_stable_offset
                size_bytes += log.size_bytes
            if pace.spend(PARTITION_WORK):
                await next_turn()
        found.append(TopicSize(offsets=offsets, waiting=waiting, size_bytes=size_bytes))
    return found
