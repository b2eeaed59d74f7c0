"""Records of ``__consumer_offsets``: group metadata and committed offsets."""

from __future__ import annotations

import msgspec

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from ottla.coordinator.group.consumer_protocol import CONSUMER, read_subscription
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import (
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 3
EXPIRING_OFFSET_VALUE_VERSION = 1

OffsetKey = tuple[str, str, int]
"""The key of an offset: group id, topic and partition."""


class CommittedOffset(msgspec.Struct, gc=False, frozen=True):
    """A committed offset. ``record_offset`` is the offset of its record in the log; ``expire_ms`` is -1 without an expiry time."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    record_offset: int = -1


def offset_record(key: OffsetKey, committed: CommittedOffset) -> LogRecord:
    expires = committed.expire_ms >= 0
    version = EXPIRING_OFFSET_VALUE_VERSION if expires else OFFSET_VALUE_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
    )
    return LogRecord(_offset_key(key), encode_record(offset_commit_value, value, version))


def offset_tombstone(key: OffsetKey) -> LogRecord:
    return LogRecord(_offset_key(key), None)


def _offset_key(key: OffsetKey) -> bytes:
    group_id, topic, partition = key
    # The version number at the start of the key is the record type.
    raw = encode_record(offset_commit_key, OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)
    return b"\0\x01" + raw[2:]


def group_record(group: ClassicGroup, now_ms: int, assignments: dict[str, bytes] | None = None) -> LogRecord:
    """Encode the group with ``assignments``, or with its current assignments."""
    members = [
        MemberMetadata(
            member_id=m.member_id,
            group_instance_id=m.instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            rebalance_timeout=m.rebalance_timeout_ms,
            session_timeout=m.session_timeout_ms,
            subscription=m.metadata(group.protocol),
            assignment=(group.assignments if assignments is None else assignments).get(m.member_id, b""),
        )
        for m in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=now_ms,
        members=members,
    )
    return LogRecord(_group_key(group.group_id), encode_record(group_metadata_value, value, GROUP_VALUE_VERSION))


def group_tombstone(group_id: str) -> LogRecord:
    return LogRecord(_group_key(group_id), None)


def _group_key(group_id: str) -> bytes:
    raw = encode_record(group_metadata_key, GroupMetadataKey(group_id), 0)
    return GROUP_KEY_VERSION.to_bytes(2, "big") + raw[2:]


def kind_of(key: bytes | None) -> int:
    """Return the type of a record, which is the version number at the start of its key, or -1 without a key."""
    return -1 if key is None else int.from_bytes(key[:2], "big", signed=True)


def read_key(key: bytes | None) -> OffsetKey | str:
    """Decode an offset's key or a group id. Raises `DecodeError` for a record of another type."""
    if key is None:
        raise DecodeError("the record has no key")
    version = kind_of(key)
    if version in OFFSET_KEY_VERSIONS:
        offset_key = decode_record(offset_commit_key, b"\0\0" + key[2:])
        return offset_key.group, offset_key.topic, offset_key.partition
    if version == GROUP_KEY_VERSION:
        group_id: str = decode_record(group_metadata_key, b"\0\0" + key[2:]).group
        return group_id
    raise DecodeError(f"unknown record type {version}")


def read_offset(value: bytes, record_offset: int) -> CommittedOffset:
    v = decode_record(offset_commit_value, value)
    return CommittedOffset(v.offset, v.leader_epoch, v.metadata, v.commit_timestamp, v.expire_timestamp, record_offset)


def read_group(group_id: str, value: bytes, now_ms: int) -> ClassicGroup:
    """Decode a group. Every member gets a new session."""
    v = decode_record(group_metadata_value, value)
    group = ClassicGroup(group_id, generation=v.generation, protocol_type=v.protocol_type or None)
    for m in v.members:
        rebalance_ms = m.rebalance_timeout if m.rebalance_timeout >= 0 else m.session_timeout
        member = ClassicGroupMember(
            member_id=m.member_id,
            instance_id=m.group_instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            session_timeout_ms=m.session_timeout,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=v.protocol_type,
            protocols=[(v.protocol or "", m.subscription)],
        )
        group.add(member)
        group.assignments[m.member_id] = m.assignment
        group.extend_session(member, now_ms)
    group.protocol_type, group.protocol, group.leader = v.protocol_type or None, v.protocol, v.leader
    group.state = ClassicGroupState.STABLE if group.members else ClassicGroupState.EMPTY
    group.state_since_ms = v.current_state_timestamp
    return group


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """Return the topics that the members of a consumer group subscribe to, or None if a subscription cannot be decoded."""
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics |= read_subscription(member.metadata(group.protocol)).topics
        except DecodeError:
            return None
    return topics
