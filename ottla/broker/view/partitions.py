"""Offsets and sizes of logs, markers and aborted transactions, and what holds back read_committed consumers."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import Protocol

import msgspec

from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.protocol.errors import KafkaError
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.log import Log

ABORTED_SHOWN = 100
"""Maximum number of aborted transactions, newest first, and of open transactions that are shown of a partition."""
MARKERS_SHOWN = 100
"""Maximum number of markers that are shown of a partition, newest first."""
MARKERS_SEARCHED = 2_000
"""Number of a partition's newest offsets that are searched for markers."""
PARTITION_WORK = 4
"""Estimated time per partition, for its offsets and size, in units of 2 us."""


class Ports(Protocol):
    cluster: ClusterCommands
    partitions: Partitions


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's log on this broker: its offsets and size."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int


EMPTY = LogState(log_start_offset=0, last_stable_offset=0, high_watermark=0, log_end_offset=0, size_bytes=0)


class OffsetRange(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of an aborted transaction, up to its marker."""

    first_offset: int
    last_offset: int


class LogDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The transactions of a log. ``markers``: offsets of control batches; ``open``: first offsets of open transactions."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    aborted: list[OffsetRange]
    markers: list[int]
    open: list[int]


class PartitionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a topic. ``detail`` is None if this broker has no replica or cannot read it, which ``problem`` explains."""

    partition: int
    leader: int
    leader_epoch: int
    detail: LogDetail | None = None
    problem: str = ""


class HeldPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition whose last stable offset, at which read_committed consumers stop, is below the high watermark."""

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction in a partition."""

    producer_id: int
    producer_epoch: int
    start_offset: int


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The size of all partitions on this broker, and the partitions with records above the last stable offset, which
    read_committed consumers do not get. ``held_count`` is their number; ``held`` has those with the most such offsets."""

    size_bytes: int
    held_count: int
    held: list[HeldPartition]


def log_state(ports: Ports, topic: str, index: int) -> LogState | None:
    """Return the state of a partition's log, or None if the topic has no such partition or this broker has no replica."""
    partition = ports.partitions.known(topic, index)
    if partition is None:
        # Report a replica that is not in service yet as empty.
        return EMPTY if has_replica(ports, topic, index) else None
    log = partition.log
    return LogState(
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
    )


async def log_states(ports: Ports, partitions: Iterable[TopicPartition]) -> list[LogState | None]:
    found, pace = [], Pace()
    for topic, index in partitions:
        found.append(log_state(ports, topic, index))
        if pace.spend(PARTITION_WORK):
            await next_turn()
    return found


def exists(ports: Ports, topic: str, index: int) -> bool:
    """Whether the partition exists in the cluster."""
    known = ports.cluster.state.topics.get(topic)
    return known is not None and 0 <= index < known.partition_count


def has_replica(ports: Ports, topic: str, index: int) -> bool:
    state = ports.cluster.state
    return exists(ports, topic, index) and (state.is_alone or state.node_id in state.topics[topic].partitions[index].replicas)


async def totals(ports: Ports, most: int) -> Totals:
    """Return the size of all partitions, and at most ``most`` partitions that hold back read_committed consumers."""
    size_bytes, held, pace = 0, list[HeldPartition](), Pace()
    for partition in list(ports.partitions):
        log = partition.log
        size_bytes += log.size_bytes
        if log.last_stable_offset < log.high_watermark:
            held.append(_held(log))
        if pace.spend(PARTITION_WORK):
            await next_turn()
    largest = nsmallest(most, held, key=lambda one: one.last_stable_offset - one.high_watermark)
    return Totals(size_bytes=size_bytes, held_count=len(held), held=largest)


def _held(log: Log) -> HeldPartition:
    return HeldPartition(
        topic=log.topic,
        partition=log.partition,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
    )


def holder(ports: Ports, topic: str, index: int) -> tuple[HeldPartition, OpenTransaction] | None:
    """Return a partition and the open transaction that holds back its last stable offset.

    None if the last stable offset is the high watermark, or if only a marker that is not committed yet holds it back.
    """
    partition = ports.partitions.known(topic, index)
    if partition is None or partition.log.last_stable_offset >= partition.log.high_watermark:
        return None
    log, producers = partition.log, partition.log.producers
    oldest = next(iter(producers.open_txns.items()), None)
    if oldest is None or oldest[1] > log.last_stable_offset:
        return None
    producer_id, start_offset = oldest
    entry = producers.entries.get(producer_id)
    epoch = -1 if entry is None else entry.epoch
    return _held(log), OpenTransaction(producer_id=producer_id, producer_epoch=epoch, start_offset=start_offset)


async def details(ports: Ports, topic: str, indexes: Iterable[int]) -> list[PartitionDetail]:
    """Return partitions of a topic. Each partition is a step, because reading its files may block the event loop for some ms."""
    found = []
    for index in indexes:
        found.append(_detail(ports, topic, index))
        await next_turn()
    return found


def _detail(ports: Ports, topic: str, index: int) -> PartitionDetail:
    partition = ports.partitions.known(topic, index)
    if partition is None:
        leader, epoch = _registered_leader(ports, topic, index)
        problem = "this broker has no replica of the partition"
        return PartitionDetail(partition=index, leader=leader, leader_epoch=epoch, problem=problem)
    leader, epoch = partition.leader_id, partition.log.leader_epoch
    try:
        return PartitionDetail(partition=index, leader=leader, leader_epoch=epoch, detail=_looked_up(partition))
    except KafkaError as error:
        problem = error.message or error.code.name
        return PartitionDetail(partition=index, leader=leader, leader_epoch=epoch, problem=problem)


def _registered_leader(ports: Ports, topic: str, index: int) -> tuple[int, int]:
    if not exists(ports, topic, index):
        return -1, -1
    registered = ports.cluster.state.topics[topic].partitions[index]
    return registered.leader, registered.leader_epoch


def _looked_up(partition: Partition) -> LogDetail:
    return partition.look_up(log_detail)


def log_detail(log: Log) -> LogDetail:
    """Return the transactions of a log. Reads the newest part of its files."""
    newest = islice((one for segment in reversed(log.segments) for one in reversed(segment.txn_index)), ABORTED_SHOWN)
    aborted = [one for one in newest if one.last_offset >= log.log_start_offset]
    return LogDetail(
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        aborted=[OffsetRange(first_offset=one.first_offset, last_offset=one.last_offset) for one in reversed(aborted)],
        markers=_markers(log),
        open=list(islice(log.producers.open_txns.values(), ABORTED_SHOWN)),
    )


def _markers(log: Log) -> list[int]:
    first = max(log.log_start_offset, log.log_end_offset - MARKERS_SEARCHED)
    if not log.producers.has_any or first >= log.log_end_offset:
        # Skip the search: no producer is known, so only expired producers can have markers among the newest offsets.
        return []
    offsets: list[int] = []
    for at in range(log.segment_at(first), len(log.segments)):
        segment = log.segments[at]
        place = segment.position_of(first)
        if place is not None:
            offsets += [header.base_offset for _, header in segment.headers(place[0]) if header.is_control]
    return offsets[-MARKERS_SHOWN:]
