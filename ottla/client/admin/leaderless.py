"""Lists partitions without a leader, with the reason and the remedy for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import UnsupportedRequest, check
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataResponsePartition


@dataclass(slots=True, frozen=True)
class LeaderlessPartition:
    """A partition without a leader. The lists contain broker ids.

    ``complete`` has the replicas with every committed record: in-sync replicas and eligible leaders (KIP-966). ``last_leaders`` has
    the last known leader, if no replica is complete. ``offline`` has replicas whose broker is not running or whose log directory
    has failed.
    """

    topic: str
    partition: int
    replicas: list[int]
    complete: list[int]
    last_leaders: list[int]
    offline: list[int]

    @property
    def awaited(self) -> list[int]:
        """Ids of the brokers that may become leader: the replicas with every committed record, or else the last leader."""
        return self.complete or (self.last_leaders if len(self.last_leaders) == 1 else [])

    @property
    def reason(self) -> str:
        if set(self.replicas) <= set(self.offline):
            return "no broker with a replica is running"
        if not set(self.awaited) <= set(self.offline):
            return "an election is in progress"
        if self.complete:
            away = "is not running" if len(self.complete) == 1 else "none of them is running"
            return f"only {_brokers(self.complete, 'and')} had every committed record, and {away}"
        unknown = "no replica is known to have every committed record"
        return f"{unknown}, and the last leader, broker {self.awaited[0]}, is not running" if self.awaited else unknown

    @property
    def remedy(self) -> str:
        """The action that an operator should take."""
        if set(self.replicas) <= set(self.offline):
            return f"start {_brokers(self.awaited or self.replicas, 'or')}"
        if not set(self.awaited) <= set(self.offline):
            return "wait"
        command = f"ottla topic elect --unclean {quote(f'{self.topic}:{self.partition}')}"
        unclean = f"{command} elects another replica, which may lack committed records"
        return f"start {_brokers(self.awaited, 'or')}; or {unclean}" if self.awaited else unclean


def _brokers(ids: Sequence[int], joined_by: str) -> str:
    *others, last = map(str, ids)
    return f"broker {last}" if not others else f"brokers {', '.join(others)} {joined_by} {last}"


def leaderless(brokers: BrokerConnections) -> list[LeaderlessPartition]:
    """Return all partitions without a leader, ordered by topic and partition."""

    def attempt() -> list[LeaderlessPartition]:
        found: list[LeaderlessPartition] = []
        for topic in sorted(brokers.metadata(None).topics, key=lambda topic: topic.name or ""):
            without = {p.partition_index: p for p in topic.partitions if p.leader_id < 0}
            if without and topic.name:
                found += _described(brokers, topic.name, without)
        return found

    return brokers.until_final("looking for partitions without a leader", attempt)


def _described(
    brokers: BrokerConnections, topic: str, without: dict[int, MetadataResponsePartition]
) -> Iterator[LeaderlessPartition]:
    """Describe leaderless partitions of a topic. A broker without KIP-966 reports in-sync replicas but no eligible leaders."""
    partitions: dict[int, MetadataResponsePartition | DescribeTopicPartitionsResponsePartition] = {**without}
    cursor: Cursor | None = None
    try:
        while True:
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)], cursor=cursor)
            answer = brokers.ask(brokers.anyone(), request)
            for described in answer.topics:
                check(f"the partitions of {topic!r}", described.error_code)
                partitions.update({p.partition_index: p for p in described.partitions if p.partition_index in without})
            cursor = answer.next_cursor
            if cursor is None:
                break
    except UnsupportedRequest:
        pass
    for index, partition in sorted(partitions.items()):
        if partition.leader_id < 0:
            yield LeaderlessPartition(
                topic=topic,
                partition=index,
                replicas=list(partition.replica_nodes),
                complete=sorted({*partition.isr_nodes, *(getattr(partition, "eligible_leader_replicas", None) or ())}),
                last_leaders=list(getattr(partition, "last_known_elr", None) or ()),
                offline=list(partition.offline_replicas),
            )
