"""The data that consumers of the classic protocol embed in JoinGroup and SyncGroup (Kafka's ConsumerProtocol)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ottla.protocol.codec import decode_body, encode_record
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition

CONSUMER = "consumer"
"""The protocol type of groups that consume topics. Groups of other types, such as Kafka Connect's, have no subscriptions."""
VERSION_BYTES = 2


class Subscription(msgspec.Struct, frozen=True):
    """A consumer's subscription. ``owned`` are the partitions that a member still owns, none for an eager member."""

    topics: frozenset[str]
    owned: Mapping[str, frozenset[int]]
    rack_id: str | None


class ClientAssignment(msgspec.Struct, frozen=True):
    """The partitions by topic name. ``user_data`` is added by a client's own assignor."""

    partitions: Mapping[str, frozenset[int]]
    user_data: bytes


def read_subscription(metadata: bytes) -> Subscription:
    """Decode the subscription in a member's JoinGroup metadata. Raises `DecodeError`."""
    read = _read(consumer_protocol_subscription, metadata)
    return Subscription(topics=frozenset(read.topics), owned=_by_topic(read.owned_partitions), rack_id=read.rack_id or None)


def read_assignment(assignment: bytes) -> ClientAssignment:
    """Decode the assignment in SyncGroup; no bytes mean no partitions. Raises `DecodeError`."""
    if not assignment:
        return ClientAssignment({}, b"")
    read = _read(consumer_protocol_assignment, assignment)
    return ClientAssignment(_by_topic(read.assigned_partitions), bytes(read.user_data or b""))


def written_assignment(partitions: Mapping[str, Iterable[int]], metadata: bytes) -> bytes:
    """Encode an assignment in the version of the member's own metadata, or in the newest known version if the member's is newer."""
    try:
        version = min(_version(metadata), consumer_protocol_assignment.MAX_VERSION)
    except DecodeError:
        version = 0
    topics = [TopicPartition(topic=topic, partitions=sorted(indexes)) for topic, indexes in sorted(partitions.items())]
    return encode_record(consumer_protocol_assignment, ConsumerProtocolAssignment(assigned_partitions=topics), version)


def _version(raw: bytes) -> int:
    version = int.from_bytes(raw[:VERSION_BYTES], "big", signed=True)
    if len(raw) < VERSION_BYTES or version < 0:
        raise DecodeError(f"invalid version {version} of the consumer protocol in {len(raw)} bytes")
    return version


def _read(module: Any, raw: bytes) -> Any:
    """Decode a message. A newer version starts with the fields of the newest known version, and is read as that version."""
    return decode_body(module.decode, raw, VERSION_BYTES, min(_version(raw), module.MAX_VERSION), may_trail=True)


def _by_topic(topics: Iterable[Any]) -> dict[str, frozenset[int]]:
    by_topic: dict[str, frozenset[int]] = {}
    for one in topics:
        by_topic[one.topic] = by_topic.get(one.topic, frozenset()).union(one.partitions)
    return by_topic
