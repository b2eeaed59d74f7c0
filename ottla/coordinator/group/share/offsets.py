"""Sets start offsets of a share group, and deletes its states, both for admins (KIP-932).

Both need a group without members. First a record of the group stores which states will change, then the share coordinator gets a
request, then a second record stores the result (`initialization.initialized`, `deleted`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.initialization import PartitionsByTopic, initializing
from ottla.coordinator.group.share.records import StatePartitions, TopicPartitions, combined, states_record
from ottla.coordinator.group.share.requests import Initialization
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError

NOTHING_TO_DELETE = "There is no offset information to delete."


class Altered(NamedTuple):
    """The response to setting start offsets. ``initialization`` is the request to the share coordinator, or None. ``unknown`` are
    partitions that do not exist."""

    initialization: Initialization | None
    unknown: Mapping[str, Collection[int]]


class Deletion(NamedTuple):
    """A deletion of states. The share coordinator must delete the states of ``partitions``. ``refusals`` are errors by topic
    name."""

    partitions: PartitionsByTopic
    refusals: Mapping[str, KafkaError]


def check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(Code.NON_EMPTY_GROUP, "The group is not empty.")


def alter(group: ShareGroup, offsets: Sequence[tuple[str, Mapping[int, int]]], topics: GroupTopics) -> Result[Altered]:
    """Set start offsets by topic name and partition. Raises NON_EMPTY_GROUP."""
    check_empty(group)
    asked: dict[bytes, TopicPartitions] = {}
    start_offsets: dict[bytes, dict[int, int]] = {}
    unknown: dict[str, frozenset[int]] = {}
    for name, by_partition in offsets:
        topic_id, count = topics.topic_id(name), topics.partition_count(name)
        if topic_id is None:
            unknown[name] = frozenset(by_partition)
            continue
        unknown[name] = frozenset(partition for partition in by_partition if not 0 <= partition < count)
        there = {partition: offset for partition, offset in by_partition.items() if 0 <= partition < count}
        if there:
            asked[topic_id] = TopicPartitions(name, frozenset(there))
            start_offsets[topic_id] = there
    if not asked:
        return Result(Altered(None, unknown))
    records = [states_record(group.group_id, initializing(group.states or StatePartitions(), asked))]
    return Result(Altered(Initialization(group.group_id, group.group_epoch, start_offsets), unknown), records=records)


def delete(group: ShareGroup, names: Sequence[str], topics: GroupTopics) -> Result[Deletion]:
    """Delete all states of some topics (GroupMetadataManager.sharePartitionsEligibleForOffsetDeletion).

    Raises NON_EMPTY_GROUP.
    """
    check_empty(group)
    states = group.states
    if states is None:
        return Result(Deletion({}, {}))
    kept, deleting = dict(states.initialized), dict(states.deleting)
    partitions: dict[bytes, frozenset[int]] = {}
    refusals: dict[str, KafkaError] = {}
    not_hosted = KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    nothing_to_delete = KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE)
    for name in names:
        topic_id = topics.topic_id(name)
        if topic_id is None:
            refusals[name] = not_hosted
        elif topic_id in kept:
            partitions[topic_id] = kept.pop(topic_id).partitions
            deleting[topic_id] = name
        elif topic_id in deleting:
            partitions[topic_id] = frozenset(range(topics.partition_count(name)))
        else:
            refusals[name] = nothing_to_delete
    if not partitions:
        return Result(Deletion({}, refusals))
    changed = msgspec.structs.replace(states, initialized=kept, deleting=deleting)
    return Result(Deletion(partitions, refusals), records=[states_record(group.group_id, changed)])


def delete_all(group: ShareGroup, topics: GroupTopics) -> Result[PartitionsByTopic]:
    """Delete all states of a group before its deletion (GroupMetadataManager.shareGroupBuildPartitionDeleteRequest).

    States of topics that no longer exist are left out, because the share coordinator deletes them by itself. Raises
    NON_EMPTY_GROUP.
    """
    check_empty(group)
    states = group.states
    if states is None:
        return Result({})
    again = {t: TopicPartitions(name, frozenset(range(topics.partition_count(name)))) for t, name in states.deleting.items()}
    everything = combined(combined(states.initialized, states.initializing), again)
    gone = {topic_id: topic for topic_id, topic in everything.items() if topics.topic_name(topic_id) is not None}
    changed = StatePartitions(deleting={topic_id: topic.name for topic_id, topic in gone.items()})
    partitions = {topic_id: topic.partitions for topic_id, topic in gone.items()}
    return Result(partitions, records=[states_record(group.group_id, changed)])


def deleted(group: ShareGroup, topic_ids: Collection[bytes]) -> list[LogRecord]:
    """Log that the share coordinator has deleted all states of these topics."""
    states = group.states
    if states is None:
        return []
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in topic_ids}
    return [states_record(group.group_id, msgspec.structs.replace(states, deleting=deleting))]
