"""Records of consumer groups in ``__consumer_offsets`` (GroupCoordinatorRecordHelpers of Kafka), in Kafka's own schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.member import ClassicMember, ConsumerGroupMember, ConsumerMemberState, HeldPartitions
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.messages import (
    consumer_group_current_member_assignment_key,
    consumer_group_current_member_assignment_value,
    consumer_group_member_metadata_key,
    consumer_group_member_metadata_value,
    consumer_group_metadata_key,
    consumer_group_metadata_value,
    consumer_group_regular_expression_key,
    consumer_group_regular_expression_value,
    consumer_group_target_assignment_member_key,
    consumer_group_target_assignment_member_value,
    consumer_group_target_assignment_metadata_key,
    consumer_group_target_assignment_metadata_value,
)
from ottla.protocol.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from ottla.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.protocol.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from ottla.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.protocol.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from ottla.protocol.messages.consumer_group_target_assignment_metadata_value import ConsumerGroupTargetAssignmentMetadataValue

METADATA = consumer_group_metadata_key.RECORD_TYPE
MEMBER = consumer_group_member_metadata_key.RECORD_TYPE
TARGET_METADATA = consumer_group_target_assignment_metadata_key.RECORD_TYPE
TARGET_MEMBER = consumer_group_target_assignment_member_key.RECORD_TYPE
CURRENT = consumer_group_current_member_assignment_key.RECORD_TYPE
REGEX = consumer_group_regular_expression_key.RECORD_TYPE
PARTITION_METADATA = 4
"""A record type of brokers before Apache Kafka 4.1. It is ignored, but a deleted group still gets its tombstone."""

KINDS = {
    METADATA: consumer_group_metadata_key,
    MEMBER: consumer_group_member_metadata_key,
    TARGET_METADATA: consumer_group_target_assignment_metadata_key,
    TARGET_MEMBER: consumer_group_target_assignment_member_key,
    CURRENT: consumer_group_current_member_assignment_key,
    REGEX: consumer_group_regular_expression_key,
    PARTITION_METADATA: consumer_group_metadata_key,
}
"""The schema of each record type, which is the version number at the start of the key."""


def _key(kind: int, message: Any) -> bytes:
    return kind.to_bytes(2, "big") + encode_record(KINDS[kind], message, 0)[2:]


def _group_key(kind: int, group_id: str) -> bytes:
    return _key(kind, ConsumerGroupMetadataKey(group_id=group_id))


def read_key(kind: int, key: bytes) -> Any:
    return decode_record(KINDS[kind], b"\0\0" + key[2:])


# a group


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return LogRecord(_group_key(METADATA, group_id), encode_record(consumer_group_metadata_value, value, 0))


def target_epoch_record(group_id: str, epoch: int, assigned_ms: int) -> LogRecord:
    """Encode the target's epoch. ``assigned_ms`` is when the target was computed; 0 allows the next one to be computed at once."""
    key = _key(TARGET_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return LogRecord(key, encode_record(consumer_group_target_assignment_metadata_value, value, 0))


def regex_record(group_id: str, regex: str, topics: frozenset[str], now_ms: int) -> LogRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=0, timestamp=now_ms)
    return LogRecord(_regex_key(group_id, regex), encode_record(consumer_group_regular_expression_value, value, 0))


def regex_tombstone(group_id: str, regex: str) -> LogRecord:
    return LogRecord(_regex_key(group_id, regex), None)


def _regex_key(group_id: str, regex: str) -> bytes:
    return _key(REGEX, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[LogRecord]:
    """Return tombstones for all records of a group, in Kafka's order."""
    members = list(member_ids)
    return [
        *(LogRecord(_current_key(group_id, m), None) for m in members),
        *(LogRecord(_target_key(group_id, m), None) for m in members),
        LogRecord(_key(TARGET_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)), None),
        *(LogRecord(_member_key(group_id, m), None) for m in members),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        LogRecord(_group_key(PARTITION_METADATA, group_id), None),
        LogRecord(_group_key(METADATA, group_id), None),
    ]


# a member


def _member_key(group_id: str, member_id: str) -> bytes:
    return _key(MEMBER, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def _target_key(group_id: str, member_id: str) -> bytes:
    return _key(TARGET_MEMBER, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def _current_key(group_id: str, member_id: str) -> bytes:
    return _key(CURRENT, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def member_record(group_id: str, member: ConsumerGroupMember) -> LogRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic_metadata(member.classic),
    )
    return LogRecord(_member_key(group_id, member.member_id), encode_record(consumer_group_member_metadata_value, value, 0))


def _classic_metadata(classic: ClassicMember) -> ClassicMemberMetadata:
    protocols = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> LogRecord:
    partitions = [TopicPartition(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in assignment.items()]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return LogRecord(_target_key(group_id, member_id), encode_record(consumer_group_target_assignment_member_value, value, 0))


def current_record(group_id: str, member: ConsumerGroupMember) -> LogRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.revoking),
    )
    return LogRecord(
        _current_key(group_id, member.member_id), encode_record(consumer_group_current_member_assignment_value, value, 0)
    )


def _with_epochs(partitions: HeldPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic, epochs in partitions.items()
    ]


def member_tombstones(group_id: str, member_id: str) -> list[LogRecord]:
    """Return a member's tombstones in Kafka's order: the member itself is removed after its assignments."""
    return [
        LogRecord(_current_key(group_id, member_id), None),
        LogRecord(_target_key(group_id, member_id), None),
        LogRecord(_member_key(group_id, member_id), None),
    ]


# reading


def read_epoch(value: bytes) -> ConsumerGroupMetadataValue:
    read: ConsumerGroupMetadataValue = decode_record(consumer_group_metadata_value, value)
    return read


def read_target_epoch(value: bytes) -> tuple[int, int]:
    """Return the epoch of a target assignment, and when it was computed, in ms."""
    read = decode_record(consumer_group_target_assignment_metadata_value, value)
    return read.assignment_epoch, read.assignment_timestamp


def read_target(value: bytes) -> Assignment:
    read = decode_record(consumer_group_target_assignment_member_value, value)
    return {t.topic_id: frozenset(t.partitions) for t in read.topic_partitions}


def read_regex(value: bytes) -> frozenset[str]:
    return frozenset(decode_record(consumer_group_regular_expression_value, value).topics)


def read_member(value: bytes) -> dict[str, Any]:
    """Decode the fields of `ConsumerGroupMember` in a member's metadata record."""
    read = decode_record(consumer_group_member_metadata_value, value)
    classic = read.classic_member_metadata
    return {
        "instance_id": read.instance_id,
        "rack_id": read.rack_id,
        "client_id": read.client_id,
        "client_host": read.client_host,
        "rebalance_timeout_ms": read.rebalance_timeout_ms,
        "topic_names": frozenset(read.subscribed_topic_names),
        "topic_regex": read.subscribed_topic_regex,
        "assignor": read.server_assignor,
        "classic": None if classic is None else _read_classic(classic),
    }


def _read_classic(metadata: ClassicMemberMetadata) -> ClassicMember:
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in metadata.supported_protocols)
    return ClassicMember(session_timeout_ms=metadata.session_timeout_ms, protocols=protocols)


def read_current(value: bytes) -> dict[str, Any]:
    """Decode the fields of `ConsumerGroupMember` in the record of a member's current assignment."""
    read = decode_record(consumer_group_current_member_assignment_value, value)
    known = read.state in (
        ConsumerMemberState.STABLE,
        ConsumerMemberState.UNREVOKED_PARTITIONS,
        ConsumerMemberState.UNRELEASED_PARTITIONS,
    )
    return {
        "member_epoch": read.member_epoch,
        "previous_epoch": read.previous_member_epoch,
        "state": ConsumerMemberState(read.state) if known else ConsumerMemberState.UNKNOWN,
        "assigned": _read_partitions(read.assigned_partitions, read.member_epoch),
        "revoking": _read_partitions(read.partitions_pending_revocation, read.member_epoch),
    }


def _read_partitions(topics: list[TopicPartitions], member_epoch: int) -> HeldPartitions:
    """Decode partitions. Brokers before Apache Kafka 4.3 write no assignment epochs; each partition then gets the member's
    epoch."""
    read: dict[bytes, dict[int, int]] = {}
    for t in topics:
        epochs = t.assignment_epochs or []
        if len(epochs) != len(t.partitions):
            epochs = [max(member_epoch, 0)] * len(t.partitions)
        read[t.topic_id] = dict(zip(t.partitions, epochs, strict=True))
    return read
