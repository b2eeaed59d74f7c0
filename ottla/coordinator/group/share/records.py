"""Records of share groups in ``__consumer_offsets`` (GroupCoordinatorRecordHelpers of Kafka), in Kafka's own schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from ottla.coordinator.group.modern.records import group_key, member_key, modern_records
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.messages import share_group_current_member_assignment_key as current_key
from ottla.protocol.messages import share_group_current_member_assignment_value as current_value
from ottla.protocol.messages import share_group_member_metadata_key as member_metadata_key
from ottla.protocol.messages import share_group_member_metadata_value as member_value
from ottla.protocol.messages import share_group_metadata_key as metadata_key
from ottla.protocol.messages import share_group_metadata_value as metadata_value
from ottla.protocol.messages import share_group_state_partition_metadata_key as states_key
from ottla.protocol.messages import share_group_state_partition_metadata_value as states_value
from ottla.protocol.messages import share_group_target_assignment_member_key as target_key
from ottla.protocol.messages import share_group_target_assignment_metadata_key as target_metadata_key

STATES = states_key.RECORD_TYPE
RECORDS = modern_records(metadata_key, member_metadata_key, target_metadata_key, target_key, current_key, {STATES: states_key})

UNKNOWN_TOPIC = "<UNKNOWN>"
"""The name of a topic that no longer exists."""
_STABLE = 0
"""The only state of a member of a share group."""


class TopicPartitions(NamedTuple):
    """Partitions of one topic, and the topic's name."""

    name: str
    partitions: frozenset[int]


TopicStates = Mapping[bytes, TopicPartitions]
"""The partitions and name of each topic, by topic id."""


class StatePartitions(msgspec.Struct, frozen=True):
    """The partitions whose state the share coordinator has or is getting (ShareGroupStatePartitionMetadataInfo).

    ``initializing``: initialization was requested. ``initialized``: initialization was confirmed. ``deleting``: deletion of all
    states of these topics was requested; names by topic id.
    """

    initializing: TopicStates = {}
    initialized: TopicStates = {}
    deleting: Mapping[bytes, str] = {}

    def topic_ids(self) -> frozenset[bytes]:
        return frozenset((*self.initializing, *self.initialized, *self.deleting))


def combined(first: TopicStates, second: TopicStates) -> dict[bytes, TopicPartitions]:
    """Return the partitions of both arguments. A topic that is in both gets its name from ``second``."""
    topics = dict(first)
    for topic_id, (name, partitions) in second.items():
        known = topics.get(topic_id)
        topics[topic_id] = TopicPartitions(name, partitions if known is None else known.partitions | partitions)
    return topics


def without(topics: TopicStates, gone: Mapping[bytes, frozenset[int]]) -> dict[bytes, TopicPartitions]:
    """Return ``topics`` without these partitions. A topic without partitions is left out."""
    left = {t: TopicPartitions(name, partitions - gone.get(t, frozenset())) for t, (name, partitions) in topics.items()}
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}


# encoding records of a group


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    value = metadata_value.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return LogRecord(group_key(RECORDS.metadata, group_id), encode_record(metadata_value, value, 0))


def states_record(group_id: str, states: StatePartitions) -> LogRecord:
    value = states_value.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[states_value.TopicInfo(topic_id=t, topic_name=name) for t, name in states.deleting.items()],
    )
    return LogRecord(group_key(STATES, group_id), encode_record(states_value, value, 0))


def _infos(topics: TopicStates) -> list[states_value.TopicPartitionsInfo]:
    return [
        states_value.TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
        for topic_id, (name, partitions) in topics.items()
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[LogRecord]:
    """Return tombstones for all records of a group, in Kafka's order."""
    return RECORDS.group_tombstones(group_id, member_ids, group_key(STATES, group_id), group_key(RECORDS.metadata, group_id))


# encoding records of a member


def member_record(group_id: str, member: ShareGroupMember) -> LogRecord:
    value = member_value.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    return LogRecord(member_key(RECORDS.member, group_id, member.member_id), encode_record(member_value, value, 0))


def current_record(group_id: str, member: ShareGroupMember) -> LogRecord:
    value = current_value.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            current_value.TopicPartitions(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in member.assigned.items()
        ],
    )
    return LogRecord(member_key(RECORDS.current, group_id, member.member_id), encode_record(current_value, value, 0))


# decoding records


def read_epoch(value: bytes) -> tuple[int, int]:
    """Decode a group's epoch and the hash of its subscribed topics."""
    read = decode_record(metadata_value, value)
    return read.epoch, read.metadata_hash


def read_states(value: bytes) -> StatePartitions:
    read: states_value.ShareGroupStatePartitionMetadataValue = decode_record(states_value, value)
    return StatePartitions(
        initializing=_read_infos(read.initializing_topics),
        initialized=_read_infos(read.initialized_topics),
        deleting={t.topic_id: t.topic_name for t in read.deleting_topics},
    )


def _read_infos(infos: list[states_value.TopicPartitionsInfo]) -> TopicStates:
    return {t.topic_id: TopicPartitions(t.topic_name, frozenset(t.partitions)) for t in infos}


def read_member(value: bytes) -> dict[str, Any]:
    """Decode the fields of `ShareGroupMember` in a member's metadata record."""
    read = decode_record(member_value, value)
    return {
        "rack_id": read.rack_id,
        "client_id": read.client_id,
        "client_host": read.client_host,
        "topic_names": frozenset(read.subscribed_topic_names),
    }


def read_current(value: bytes) -> dict[str, Any]:
    """Decode the fields of `ShareGroupMember` in the record of a member's current assignment."""
    read = decode_record(current_value, value)
    return {
        "member_epoch": read.member_epoch,
        "previous_epoch": read.previous_member_epoch,
        "assigned": {t.topic_id: frozenset(t.partitions) for t in read.assigned_partitions},
    }
