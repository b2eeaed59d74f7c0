"""Records that consumer, streams and share groups have in common (GroupCoordinatorRecordHelpers of Kafka).

Kafka has separate schemas for each protocol. Schemas of keys and of the target's epoch differ only in the record type; schemas of
target assignments are equal for consumer and share groups. So ottla uses the schemas of consumer groups for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.messages import consumer_group_member_metadata_key as shared_member_key
from ottla.protocol.messages import consumer_group_metadata_key as shared_group_key
from ottla.protocol.messages import consumer_group_target_assignment_member_value as target_value
from ottla.protocol.messages import consumer_group_target_assignment_metadata_value as target_metadata_value


class ModernRecords(msgspec.Struct, frozen=True):
    """The record types of one protocol. ``keys`` has the schema of each type's key.

    A key starts with its record type, where other messages have a version.
    """

    metadata: int
    member: int
    target_metadata: int
    target_member: int
    current: int
    keys: Mapping[int, Any]

    def read_key(self, kind: int, key: bytes) -> Any:
        return decode_record(self.keys[kind], b"\0\0" + key[2:])

    def target_epoch_record(self, group_id: str, epoch: int, assigned_ms: int) -> LogRecord:
        """Encode the target's epoch. ``assigned_ms`` is when the target was computed; 0 allows the next target at once."""
        value = target_metadata_value.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=assigned_ms
        )
        return LogRecord(group_key(self.target_metadata, group_id), encode_record(target_metadata_value, value, 0))

    def target_record(self, group_id: str, member_id: str, assignment: Assignment) -> LogRecord:
        """Encode the target of a member of a consumer or share group."""
        partitions = [
            target_value.TopicPartition(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in assignment.items()
        ]
        value = target_value.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
        return LogRecord(member_key(self.target_member, group_id, member_id), encode_record(target_value, value, 0))

    def member_tombstones(self, group_id: str, member_id: str) -> list[LogRecord]:
        """Return a member's tombstones in Kafka's order: the member itself is removed after its assignments."""
        kinds = (self.current, self.target_member, self.member)
        return [LogRecord(member_key(kind, group_id, member_id), None) for kind in kinds]

    def group_tombstones(self, group_id: str, member_ids: Iterable[str], *own: bytes) -> list[LogRecord]:
        """Return tombstones for all records of a group, in Kafka's order. ``own`` are keys of types that only this protocol has.
        They follow the members' keys."""
        members = list(member_ids)
        keys = [
            *(member_key(self.current, group_id, m) for m in members),
            *(member_key(self.target_member, group_id, m) for m in members),
            group_key(self.target_metadata, group_id),
            *(member_key(self.member, group_id, m) for m in members),
            *own,
        ]
        return [LogRecord(key, None) for key in keys]


def modern_records(
    metadata: Any, member: Any, target_metadata: Any, target_member: Any, current: Any, own: Mapping[int, Any]
) -> ModernRecords:
    """Return the record types of a protocol from the schemas of its keys. ``own`` are types that only this protocol has."""
    common = (metadata, member, target_metadata, target_member, current)
    return ModernRecords(
        metadata=metadata.RECORD_TYPE,
        member=member.RECORD_TYPE,
        target_metadata=target_metadata.RECORD_TYPE,
        target_member=target_member.RECORD_TYPE,
        current=current.RECORD_TYPE,
        keys={**{schema.RECORD_TYPE: schema for schema in common}, **own},
    )


def group_key(kind: int, group_id: str) -> bytes:
    key = shared_group_key.ConsumerGroupMetadataKey(group_id=group_id)
    return kind.to_bytes(2, "big") + encode_record(shared_group_key, key, 0)[2:]


def member_key(kind: int, group_id: str, member_id: str) -> bytes:
    key = shared_member_key.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return kind.to_bytes(2, "big") + encode_record(shared_member_key, key, 0)[2:]


def read_target_epoch(value: bytes) -> tuple[int, int]:
    """Return the epoch of a target assignment, and when it was computed, in ms."""
    read = decode_record(target_metadata_value, value)
    return read.assignment_epoch, read.assignment_timestamp


def read_target(value: bytes) -> Assignment:
    """Decode the target of a member of a consumer or share group."""
    read = decode_record(target_value, value)
    return {t.topic_id: frozenset(t.partitions) for t in read.topic_partitions}
