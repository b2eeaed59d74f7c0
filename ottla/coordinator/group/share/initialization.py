"""Decides which partitions' states the share coordinator must initialize.

Initialization starts with the first heartbeat that subscribes to a topic, and takes two steps. First, a record marks the partitions
as initializing, and the share coordinator gets a request. Second, another record marks them as initialized; only then are they
assigned. If the request is lost between the two records, a later heartbeat repeats it after
``group.share.initialize.retry.interval.ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.records import (
    UNKNOWN_TOPIC,
    StatePartitions,
    TopicPartitions,
    TopicStates,
    combined,
    states_record,
    without,
)
from ottla.coordinator.group.share.requests import NO_OFFSET, Initialization
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import LogRecord

PartitionsByTopic = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id."""


def missing_states(
    group: ShareGroup,
    state_epoch: int,
    names: Iterable[str],
    retry_ms: int,
    topics: GroupTopics,
    now_ms: int,
    records: list[LogRecord],
) -> Initialization | None:
    """Return the request that initializes missing states of these topics' share partitions, or None if none is missing.

    Appends the record that marks the topics as initializing to ``records``. If a topic has grown, its new partitions start at
    offset 0, so that the group misses no record of them. A repeated request starts partitions at 0 as well, because Kafka tracks
    the initialization by topic and not by partition (GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest).
    """
    if group.has_all_states and not records:
        return None
    states = group.states or StatePartitions()
    asked_for = states.initializing if now_ms - group.states_noted_ms < retry_ms else {}
    missing: dict[bytes, TopicPartitions] = {}
    for name in names:
        topic_id, count = topics.topic_id(name), topics.partition_count(name)
        if topic_id is None:
            continue
        known = combined(_only(states.initialized, topic_id), _only(asked_for, topic_id)).get(topic_id)
        if known is None or len(known.partitions) < count:
            there = frozenset() if known is None else known.partitions
            missing[topic_id] = TopicPartitions(name, frozenset(range(count)) - there)
    if not missing:
        # Later heartbeats search for missing states again if this heartbeat's records are not replayed yet, or if states are still
        # initializing.
        group.has_all_states = not records and not states.initializing
        return None
    records.append(states_record(group.group_id, initializing(states, missing)))
    started = states.initialized.keys() | states.initializing.keys()
    return Initialization(
        group.group_id,
        state_epoch,
        {
            topic_id: dict.fromkeys(sorted(topic.partitions), 0 if topic_id in started else NO_OFFSET)
            for topic_id, topic in missing.items()
        },
    )


def _only(topics: TopicStates, topic_id: bytes) -> TopicStates:
    return {topic_id: topics[topic_id]} if topic_id in topics else {}


def initializing(states: StatePartitions, asked: TopicStates) -> StatePartitions:
    """Return the states after the share coordinator was requested to initialize ``asked``."""
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in asked}
    return msgspec.structs.replace(states, initializing=combined(states.initializing, asked), deleting=deleting)


def is_initializing(group: ShareGroup, topic_id: bytes, partition: int) -> bool:
    topic = None if group.states is None else group.states.initializing.get(topic_id)
    return topic is not None and partition in topic.partitions


def initialized(group: ShareGroup, partitions: PartitionsByTopic, topics: GroupTopics) -> list[LogRecord]:
    """Move ``partitions`` from initializing to initialized, except partitions that were deleted meanwhile."""
    states = group.states or StatePartitions()
    awaited = {t: frozenset(n for n in numbers if is_initializing(group, t, n)) for t, numbers in partitions.items()}
    named = {t: TopicPartitions(topics.topic_name(t) or UNKNOWN_TOPIC, p) for t, p in awaited.items() if p}
    if not named:
        return []
    changed = msgspec.structs.replace(
        states, initializing=without(states.initializing, partitions), initialized=combined(states.initialized, named)
    )
    return [states_record(group.group_id, changed)]


def not_initialized(group: ShareGroup, partitions: PartitionsByTopic) -> list[LogRecord]:
    """Remove partitions that the share coordinator refused to initialize. The next heartbeat requests them again."""
    if group.states is None or not group.states.initializing:
        return []
    changed = msgspec.structs.replace(group.states, initializing=without(group.states.initializing, partitions))
    return [states_record(group.group_id, changed)]


def state_lost(group: ShareGroup, topic_id: bytes, partition: int) -> list[LogRecord]:
    """Remove a partition whose initialized state the share coordinator lost, for example in a power cut.

    The next heartbeat requests the state again. The topic stays in the map of initialized topics, so the partition starts at offset
    0: records are delivered again, and none is skipped.
    """
    states = group.states
    topic = None if states is None else states.initialized.get(topic_id)
    if states is None or topic is None or partition not in topic.partitions:
        return []
    left = {**states.initialized, topic_id: TopicPartitions(topic.name, topic.partitions - {partition})}
    return [states_record(group.group_id, msgspec.structs.replace(states, initialized=left))]


def without_topics(group: ShareGroup, topics: GroupTopics) -> list[LogRecord]:
    """Remove the states of topics that no longer exist (GroupMetadataManager.maybeCleanupShareGroupState)."""
    states = group.states
    gone = frozenset() if states is None else frozenset(t for t in states.topic_ids() if topics.topic_name(t) is None)
    if states is None or not gone:
        return []
    left = StatePartitions(
        initializing={topic_id: topic for topic_id, topic in states.initializing.items() if topic_id not in gone},
        initialized={topic_id: topic for topic_id, topic in states.initialized.items() if topic_id not in gone},
        deleting={topic_id: name for topic_id, name in states.deleting.items() if topic_id not in gone},
    )
    return [states_record(group.group_id, left)]
