"""Matches a topology with the cluster's topics: computes the number of tasks, and the internal topics to create.

The logic is that of Kafka's InternalTopicManager with RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ottla.coordinator.group.streams.java_order import hash_order
from ottla.coordinator.group.streams.status import StatusCode, status
from ottla.coordinator.group.streams.topology import Topology, sources_of
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_heartbeat import Status
from ottla.protocol.messages.streams_group_topology_value import Subtopology, TopicInfo

TOPICS_IN_A_STATUS = 3
MAX_TASKS = 50_000
"""Maximum number of tasks of a topology. The records of a target with twice as many tasks would not fit into a batch."""


class InternalTopic(msgspec.Struct, frozen=True):
    """A repartition or changelog topic that exists or must be created. Replication factor 0 means the broker's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str]


class ConfiguredSubtopology(msgspec.Struct, frozen=True):
    task_count: int
    source_topics: list[str] = []
    repartition_sources: dict[str, InternalTopic] = {}
    repartition_sinks: list[str] = []
    changelogs: dict[str, InternalTopic] = {}

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class ConfiguredTopology(msgspec.Struct, frozen=True):
    """A topology matched with the topics. ``subtopologies`` are sorted by id, or None if they cannot be determined."""

    epoch: int
    subtopologies: dict[str, ConfiguredSubtopology] | None
    missing_topics: dict[str, InternalTopic] = {}
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Problem(Exception):
    """The cluster's topics do not fit the topology. Members learn of this from a status, not from an error."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        self.status = status(code, detail)
        super().__init__(detail)


def configure(topology: Topology, topics: GroupTopics) -> ConfiguredTopology:
    """Match a topology with the topics. Raises STREAMS_INVALID_TOPOLOGY for a topology that cannot fit any topics."""
    try:
        _check_source_topics(topology, topics)
        counts = _PartitionCounts(topics)
        _count_repartition_topics(topology, counts)
        _enforce_copartitioning(topology, counts)
        _count_changelogs(topology, counts)
        _check_task_count(topology, counts)
        subtopologies = {i: _configured(topology.subtopologies[i], counts) for i in sorted(topology.subtopologies)}
        missing = _missing_topics(subtopologies, topics)
    except _Problem as problem:
        return ConfiguredTopology(topology.epoch, None, problem=problem.status)
    if not missing:
        return ConfiguredTopology(topology.epoch, subtopologies)
    names = _some_of(hash_order(missing))
    problem_status = status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem_status)


class _PartitionCounts:
    """Partition counts of existing topics, and decided counts of internal topics. An existing topic keeps its count."""

    def __init__(self, topics: GroupTopics) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}

    def existing(self, topic: str) -> int:
        """Return the partition count of an existing topic, else 0."""
        return self._topics.partition_count(topic)

    def of(self, topic: str) -> int:
        return self.existing(topic) or self.decided[topic]


def _check_source_topics(topology: Topology, topics: GroupTopics) -> None:
    missing = {topic for one in topology.subtopologies.values() for topic in one.source_topics if not topics.partition_count(topic)}
    if missing:
        raise _Problem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_some_of(sorted(missing))} are missing.")


def _count_repartition_topics(topology: Topology, counts: _PartitionCounts) -> None:
    """Decide the counts of repartition topics: from the topology, or from the largest source of a subtopology that writes to the
    topic.

    Such a source may be a repartition topic whose count is not decided yet, so the loop runs until all counts are decided.
    """
    subtopologies = list(topology.in_order())
    decided = {topic.name: topic.partitions for one in subtopologies for topic in one.repartition_source_topics if topic.partitions}
    waiting = True
    while waiting:
        waiting = has_decided = False
        for one in subtopologies:
            for sink in one.repartition_sink_topics:
                if sink in decided:
                    continue
                count = _largest_source(one, decided, counts)
                if count is None:
                    waiting = True
                else:
                    decided[sink] = count
                    has_decided = True
        if waiting and not has_decided:
            raise _invalid("The partitions of some repartition topics cannot be counted: the topology has a cycle.")
    if any(topic.name not in decided for one in subtopologies for topic in one.repartition_source_topics):
        raise _invalid("A repartition topic has readers, but no subtopology writes into it.")
    counts.decided.update(decided)


def _largest_source(subtopology: Subtopology, decided: dict[str, int], counts: _PartitionCounts) -> int | None:
    known = [decided[topic.name] for topic in subtopology.repartition_source_topics if topic.name in decided]
    known += [counts.existing(topic) for topic in subtopology.source_topics if counts.existing(topic)]
    return max(known, default=None)


def _enforce_copartitioning(topology: Topology, counts: _PartitionCounts) -> None:
    """Give topics that are joined the same number of partitions. Only repartition topics without a configured number change."""
    internal = [topic for one in topology.subtopologies.values() for topic in one.repartition_source_topics]
    fixed = {topic.name for topic in internal if topic.partitions}
    flexible = {topic.name for topic in internal if not topic.partitions}
    for one in topology.in_order():
        for group in one.copartition_groups:
            names = {one.source_topics[at] for at in group.source_topics}
            names |= {one.repartition_source_topics[at].name for at in group.repartition_source_topics}
            if names:
                counts.decided.update(_copartitioned(names, fixed, flexible, counts))


def _copartitioned(group: set[str], fixed: set[str], flexible: set[str], counts: _PartitionCounts) -> dict[str, int]:
    """Return the counts of the repartition topics in a copartition group.

    If a copartition group has only repartition topics, all topics of the topology with a fixed partition count must have the same
    count, as in Kafka.
    """
    repartition = {topic: counts.of(topic) for topic in group if topic in fixed or topic in flexible}
    others = {topic: counts.of(topic) for topic in group if topic not in repartition}
    if others:
        count = _same_count(others)
    elif fixed:
        count = _same_count({topic: counts.of(topic) for topic in fixed})
    else:
        count = max(repartition.values())
    for topic, own_count in repartition.items():
        if topic in fixed and own_count != count:
            detail = f"Repartition topic {topic} has {own_count} partitions, and the topics that it is joined with {count}."
            raise _Problem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return dict.fromkeys(repartition, count)


def _same_count(counted: dict[str, int]) -> int:
    if len(set(counted.values())) > 1:
        listed = ", ".join(f"{topic}={counted[topic]}" for topic in sorted(counted))
        detail = f"Following topics do not have the same number of partitions: {listed}"
        raise _Problem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return next(iter(counted.values()))


def _count_changelogs(topology: Topology, counts: _PartitionCounts) -> None:
    """Decide one partition per task for each changelog topic. An existing topic with another number is reported later."""
    decided: dict[str, int] = {}
    for one in topology.in_order():
        if not sources_of(one):
            raise _invalid(f"Subtopology {one.subtopology_id} has no source topics.")
        count = max(map(counts.of, sources_of(one)))
        decided |= {topic.name: count for topic in one.state_changelog_topics}
    counts.decided.update(decided)


def _check_task_count(topology: Topology, counts: _PartitionCounts) -> None:
    count = sum(max(map(counts.of, sources_of(one))) for one in topology.in_order())
    if count > MAX_TASKS:
        raise _invalid(f"The topology has {count} tasks, and may have {MAX_TASKS} at most.")


def _configured(subtopology: Subtopology, counts: _PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        task_count=max(map(counts.of, sources_of(subtopology))),
        source_topics=subtopology.source_topics,
        repartition_sources={topic.name: _internal_topic(topic, counts) for topic in subtopology.repartition_source_topics},
        repartition_sinks=subtopology.repartition_sink_topics,
        changelogs={topic.name: _internal_topic(topic, counts) for topic in subtopology.state_changelog_topics},
    )


def _internal_topic(topic: TopicInfo, counts: _PartitionCounts) -> InternalTopic:
    return InternalTopic(
        name=topic.name,
        partition_count=topic.partitions or counts.decided[topic.name],
        replication_factor=topic.replication_factor,
        configs={config.key: config.value for config in topic.topic_configs},
    )


def _missing_topics(subtopologies: dict[str, ConfiguredSubtopology], topics: GroupTopics) -> dict[str, InternalTopic]:
    missing: dict[str, InternalTopic] = {}
    for one in subtopologies.values():
        for topic in (*one.repartition_sources.values(), *one.changelogs.values()):
            count = topics.partition_count(topic.name)
            if not count:
                missing[topic.name] = topic
            elif count != topic.partition_count:
                detail = f"Topic {topic.name} has {count} partitions, and should have {topic.partition_count}."
                raise _Problem(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return missing


def _some_of(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:TOPICS_IN_A_STATUS])
    more = len(names) - TOPICS_IN_A_STATUS
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _invalid(message: str) -> KafkaError:
    return KafkaError(Code.STREAMS_INVALID_TOPOLOGY, message)
