"""Computes a group's positions and lag, for commands, the console and `ottla.testing`.

Like kafka-consumer-groups, it lists each partition for which the group has a committed offset or which a member owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import GROUP, BrokerConnections
from ottla.client.errors import KafkaAnswered, UnknownTopic, check
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.topic_partition import TopicPartition


@dataclass(slots=True, frozen=True)
class GroupPosition:
    """A group's position in a partition. As in Kafka's tools, ``lag`` counts offsets up to the high watermark, including markers.

    Without a committed offset ``committed`` and ``lag`` are None, and ``start`` is the log start offset, where a member with
    ``auto.offset.reset=earliest`` begins. Otherwise ``start`` is None.
    """

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    metadata: str = ""
    start: int | None = None

    @property
    def unread(self) -> int:
        """The lag; without a committed offset, the number of offsets from ``start`` to the end."""
        return self.lag if self.lag is not None else max(0, self.end - (self.start or 0))


@dataclass(slots=True, frozen=True)
class Lag:
    """Sums over a group's positions. ``known`` is the lag in partitions with a committed offset. ``uncommitted`` is the number of
    partitions without one, and ``from_earliest`` the number of offsets in those partitions."""

    known: int
    uncommitted: int
    from_earliest: int


def total_lag(positions: Iterable[GroupPosition]) -> Lag:
    positions = list(positions)
    without = [position for position in positions if position.committed is None]
    return Lag(sum(position.lag or 0 for position in positions), len(without), sum(position.unread for position in without))


@dataclass(slots=True, frozen=True)
class _Commit:
    """A committed offset. ``lag`` is None if the response does not contain the lag."""

    offset: int
    metadata: str = ""
    lag: int | None = None


_Commits = dict[TopicPartition, _Commit | None]
"""Committed offsets by partition; None for a partition that the group knows, but in which it has committed nothing."""


def positions_of(brokers: BrokerConnections, group: str, *, is_share: bool, owned: Iterable[TopicPartition]) -> list[GroupPosition]:
    """Return the positions in all partitions that have a committed offset or are ``owned``, ordered by topic and partition.

    Raises `KafkaAnswered`. Partitions that do not exist are omitted: committed offsets and assignments may outlive a deleted topic.
    """
    commits = _share_offsets(brokers, group) if is_share else _committed(brokers, group)
    wanted: _Commits = {**dict.fromkeys(owned), **commits}
    ends = _offsets(brokers, wanted, LATEST)
    starts = _offsets(brokers, [where for where in ends if wanted[where] is None], EARLIEST)
    positions = []
    for where, end in sorted(ends.items()):
        commit = wanted[where]
        if commit is not None:
            lag = max(0, end - commit.offset) if commit.lag is None else commit.lag
            positions.append(GroupPosition(*where, commit.offset, end, lag, commit.metadata))
        elif where in starts:
            positions.append(GroupPosition(*where, None, end, None, start=starts[where]))
    return positions


def _offsets(brokers: BrokerConnections, wanted: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    by_topic: dict[str, set[int]] = {}
    for topic, index in wanted:
        by_topic.setdefault(topic, set()).add(index)
    offsets: dict[TopicPartition, int] = {}
    for topic, indexes in sorted(by_topic.items()):
        try:
            # Some partitions may not exist: a topic may have been created again with fewer partitions, and a streams task reads
            # topics with different numbers of partitions.
            found = list_offsets(brokers, topic, sorted(indexes), timestamp, skips_missing=True)
            offsets.update({(topic, index): offset for index, offset in found.items()})
        except UnknownTopic:
            continue
        except KafkaAnswered as refused:
            if refused.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return offsets


def _committed(brokers: BrokerConnections, group: str) -> _Commits:
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=False
    )
    what = f"asking for the offsets of group {group!r}"

    def attempt() -> _Commits:
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        # Before version 8 an OffsetFetch response has one group only (KIP-709).
        answered = answer.groups[0] if answer.groups else answer
        check(what, answered.error_code)
        commits: _Commits = {}
        for topic in answered.topics:
            for partition in topic.partitions:
                check(what, partition.error_code)
                if partition.committed_offset >= 0:
                    commits[topic.name, partition.partition_index] = _Commit(partition.committed_offset, partition.metadata or "")
        return commits

    return brokers.until_final(what, attempt)


def _share_offsets(brokers: BrokerConnections, group: str) -> _Commits:
    """Return start offsets of a share group; None for a partition that the group has initialised but not read."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    what = f"asking for the offsets of share group {group!r}"

    def attempt() -> _Commits:
        request = DescribeShareGroupOffsetsRequest(groups=[asked])
        answered = brokers.ask(brokers.coordinator(GROUP, group), request).groups[0]
        check(what, answered.error_code, answered.error_message)
        return {
            (topic.topic_name, p.partition_index): (
                None if p.start_offset < 0 else _Commit(p.start_offset, lag=None if p.lag < 0 else p.lag)
            )
            for topic in answered.topics
            for p in topic.partitions
            if not p.error_code
        }

    return brokers.until_final(what, attempt)


def by_topic(assignment: Mapping[str, Iterable[int]]) -> list[TopicPartition]:
    """Return the partitions of an assignment, ordered by topic and partition."""
    return [(topic, index) for topic, indexes in sorted(assignment.items()) for index in sorted(indexes)]
