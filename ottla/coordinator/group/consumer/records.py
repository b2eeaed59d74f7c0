"""Records of consumer groups in ``__consumer_offsets`` (GroupCoordinatorRecordHelpers of Kafka), in Kafka's own schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.coordinator.group.consumer.member import ClassicMember, ConsumerGroupMember, ConsumerMemberState, HeldPartitions
from ottla.coordinator.group.modern.records import group_key, member_key, modern_records
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.messages import consumer_group_current_member_assignment_key as current_key
from ottla.protocol.messages import consumer_group_current_member_assignment_value as current_value
from ottla.protocol.messages import consumer_group_member_metadata_key as member_metadata_key
from ottla.protocol.messages import consumer_group_member_metadata_value as member_value
from ottla.protocol.messages import consumer_group_metadata_key as metadata_key
from ottla.protocol.messages import consumer_group_metadata_value as metadata_value
from ottla.protocol.messages import consumer_group_regular_expression_key as regex_key
from ottla.protocol.messages import consumer_group_regular_expression_value as regex_value
from ottla.protocol.messages import consumer_group_target_assignment_member_key as target_key
from ottla.protocol.messages import consumer_group_target_assignment_metadata_key as target_metadata_key

REGEX = regex_key.RECORD_TYPE
PARTITION_METADATA = 4
"""A record type of brokers before Apache Kafka 4.1. Such records are ignored, but deleting a group writes their tombstone."""
RECORDS = modern_records(
    metadata_key,
    member_metadata_key,
    target_metadata_key,
    target_key,
    current_key,
    {REGEX: regex_key, PARTITION_METADATA: metadata_key},
)


# encoding records of a group


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    value = metadata_value.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return LogRecord(group_key(RECORDS.metadata, group_id), encode_record(metadata_value, value, 0))


def regex_record(group_id: str, regex: str, topics: frozenset[str], now_ms: int) -> LogRecord:
    value = regex_value.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=0, timestamp=now_ms)
    return LogRecord(_regex_key(group_id, regex), encode_record(regex_value, value, 0))


def regex_tombstone(group_id: str, regex: str) -> LogRecord:
    return LogRecord(_regex_key(group_id, regex), None)


def _regex_key(group_id: str, regex: str) -> bytes:
    # The key of a regular expression has the layout of a member's key.
    return member_key(REGEX, group_id, regex)


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[LogRecord]:
    """Return tombstones for all records of a group, in Kafka's order."""
    own = (
        *(_regex_key(group_id, r) for r in regexes),
        group_key(PARTITION_METADATA, group_id),
        group_key(RECORDS.metadata, group_id),
    )
    return RECORDS.group_tombstones(group_id, member_ids, *own)


# encoding records of a member


def member_record(group_id: str, member: ConsumerGroupMember) -> LogRecord:
    value = member_value.ConsumerGroupMemberMetadataValue(
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
    return LogRecord(member_key(RECORDS.member, group_id, member.member_id), encode_record(member_value, value, 0))


def _classic_metadata(classic: ClassicMember) -> member_value.ClassicMemberMetadata:
    protocols = [member_value.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return member_value.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def current_record(group_id: str, member: ConsumerGroupMember) -> LogRecord:
    value = current_value.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.revoking),
    )
    return LogRecord(member_key(RECORDS.current, group_id, member.member_id), encode_record(current_value, value, 0))


def _with_epochs(partitions: HeldPartitions) -> list[current_value.TopicPartitions]:
    return [
        current_value.TopicPartitions(topic_id=topic, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic, epochs in partitions.items()
    ]


# decoding records


def read_epoch(value: bytes) -> tuple[int, int]:
    """Decode a group's epoch and the hash of its subscribed topics."""
    read = decode_record(metadata_value, value)
    return read.epoch, read.metadata_hash


def read_regex(value: bytes) -> frozenset[str]:
    return frozenset(decode_record(regex_value, value).topics)


def read_member(value: bytes) -> dict[str, Any]:
    """Decode the fields of `ConsumerGroupMember` in a member's metadata record."""
    read = decode_record(member_value, value)
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


def _read_classic(metadata: member_value.ClassicMemberMetadata) -> ClassicMember:
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in metadata.supported_protocols)
    return ClassicMember(session_timeout_ms=metadata.session_timeout_ms, protocols=protocols)


def read_current(value: bytes) -> dict[str, Any]:
    """Decode the fields of `ConsumerGroupMember` in the record of a member's current assignment."""
    read = decode_record(current_value, value)
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


def _read_partitions(topics: list[current_value.TopicPartitions], member_epoch: int) -> HeldPartitions:
    """Decode partitions. Before Apache Kafka 4.3 they have no assignment epochs; each then gets the member's epoch."""
    read: dict[bytes, dict[int, int]] = {}
    for t in topics:
        epochs = t.assignment_epochs or []
        if len(epochs) != len(t.partitions):
            epochs = [max(member_epoch, 0)] * len(t.partitions)
        read[t.topic_id] = dict(zip(t.partitions, epochs, strict=True))
    return read
