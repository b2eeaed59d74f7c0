"""Lists and describes groups of all types with their lag, and sets or deletes their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.brokers import GROUP, BrokerNode, Brokers
from ottla.client.connection import BrokerConnection
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.client.offsets import LATEST, list_offsets
from ottla.protocol.codec import decode_body
from ottla.protocol.errors import Code, DecodeError
from ottla.protocol.messages import consumer_protocol_assignment
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.topic_partition import TopicPartition

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
_DESCRIBE: Final[Mapping[str, Any]] = {
    CLASSIC: lambda group: DescribeGroupsRequest(groups=[group]),
    CONSUMER: lambda group: ConsumerGroupDescribeRequest(group_ids=[group]),
    SHARE: lambda group: ShareGroupDescribeRequest(group_ids=[group]),
    STREAMS: lambda group: StreamsGroupDescribeRequest(group_ids=[group]),
}
RESTING: Final = ("Empty", "Dead")
"""The states of groups without members, whose offsets a client may set."""


@dataclass(slots=True, frozen=True)
class GroupListing:
    group_id: str
    group_type: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(slots=True, frozen=True)
class GroupMember:
    """``assignment`` are partitions by topic; for a member of a streams group tasks by subtopology."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assignment: dict[str, list[int]]


@dataclass(slots=True, frozen=True)
class GroupPosition:
    """How far a group has read a partition. As in Kafka's tools, ``lag`` counts offsets up to the high watermark, with markers."""

    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    metadata: str = ""


@dataclass(slots=True, frozen=True)
class GroupDescription:
    group_id: str
    group_type: str
    state: str
    epoch: int | None
    assignor: str
    members: list[GroupMember]
    positions: list[GroupPosition] = field(default_factory=list)


def list_groups(brokers: Brokers, silent: list[ClientError] | None = None) -> list[GroupListing]:
    """The groups of all coordinators, ordered by id. Where ``silent`` is given it gets the errors of brokers that do not answer,
    whose groups are then left out."""

    def ask(node: BrokerNode, connection: BrokerConnection) -> list[GroupListing]:
        answer = brokers.ask(connection, ListGroupsRequest())
        check("listing groups", answer.error_code)
        return [
            GroupListing(
                group_id=g.group_id,
                group_type=g.group_type or CLASSIC,
                state=g.group_state,
                protocol_type=g.protocol_type,
                coordinator=node.node_id,
            )
            for g in answer.groups
        ]

    # A group that moves while it is listed may be named twice.
    listings = {listing.group_id: listing for listing in brokers.of_all("listing groups", ask, silent)}
    return [listings[name] for name in sorted(listings)]


def find(brokers: Brokers, group: str) -> GroupListing:
    """Raises `KafkaAnswered` where the group does not exist."""
    listing = next((listing for listing in list_groups(brokers) if listing.group_id == group), None)
    if listing is None:
        message = "ottla group list names those that there are"
        raise KafkaAnswered(f"there is no group {group!r} at {brokers.bootstrap}", Code.GROUP_ID_NOT_FOUND, message)
    return listing


def describe(brokers: Brokers, group: str) -> GroupDescription:
    """Raises `KafkaAnswered` where the group does not exist."""
    listing = find(brokers, group)
    kind = listing.group_type.lower()
    if kind not in _DESCRIBE:
        raise ClientError(f"group {group!r} is of type {listing.group_type!r}, which this client does not know")
    request, what = _DESCRIBE[kind](group), f"describing group {group!r}"

    def attempt() -> Any:
        described = brokers.ask(brokers.coordinator(GROUP, group), request).groups[0]
        check(what, described.error_code, described.error_message)
        return described

    described = brokers.until_final(what, attempt)
    return GroupDescription(
        group_id=group,
        group_type=kind,
        state=described.group_state,
        epoch=None if kind == CLASSIC else described.group_epoch,
        assignor=(described.protocol_data if kind == CLASSIC else described.assignor_name) or "",
        members=[_member(kind, member) for member in described.members],
        positions=positions(brokers, listing),
    )


def _member(kind: str, member: Any) -> GroupMember:
    if kind == CLASSIC:
        assignment = _classic_assignment(member.member_assignment)
    elif kind == STREAMS:
        assignment = {task.subtopology_id: sorted(task.partitions) for task in member.assignment.active_tasks}
    else:
        assignment = {part.topic_name: sorted(part.partitions) for part in member.assignment.topic_partitions}
    return GroupMember(
        member_id=member.member_id,
        # Members of share groups are never static.
        instance_id=getattr(member, "group_instance_id" if kind == CLASSIC else "instance_id", None),
        client_id=member.client_id,
        host=member.client_host,
        epoch=None if kind == CLASSIC else member.member_epoch,
        assignment=assignment,
    )


def _classic_assignment(raw: bytes) -> dict[str, list[int]]:
    """The assignment of a consumer. Other clients of the classic protocol, such as Kafka Connect, have their own format: empty."""
    try:
        version = min(int.from_bytes(raw[:2], "big"), consumer_protocol_assignment.MAX_VERSION)
        assignment = decode_body(consumer_protocol_assignment.decode, raw, 2, version, may_trail=True)
    except DecodeError:
        return {}
    return {part.topic: sorted(part.partitions) for part in assignment.assigned_partitions}


def lag(brokers: Brokers, group: str) -> dict[TopicPartition, int]:
    """How many offsets lie between a group's commits and the high watermark, by partition. Raises `KafkaAnswered`."""
    return {(p.topic, p.partition): p.lag for p in positions(brokers, find(brokers, group))}


def positions(brokers: Brokers, listing: GroupListing) -> list[GroupPosition]:
    """The group's positions, ordered by topic and partition. Partitions without a commit are left out."""
    share = listing.group_type.lower() == SHARE
    committed = _share_offsets(brokers, listing.group_id) if share else _committed(brokers, listing.group_id)
    ends: dict[TopicPartition, int] = {}
    for topic in sorted({topic for topic, _ in committed}):
        indexes = [index for name, index in committed if name == topic]
        try:
            ends.update({(topic, i): offset for i, offset in list_offsets(brokers, topic, indexes, LATEST).items()})
        except KafkaAnswered as refused:
            # Committed offsets may exist for a while after their topic was deleted.
            if refused.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return [
        GroupPosition(
            topic=key[0],
            partition=key[1],
            committed=offset,
            end=ends[key],
            lag=max(0, ends[key] - offset) if known_lag is None else known_lag,
            metadata=metadata,
        )
        for key, (offset, metadata, known_lag) in sorted(committed.items())
        if key in ends
    ]


_Committed = dict[TopicPartition, tuple[int, str, int | None]]
"""Offset, metadata, and the lag if the broker gives one, by partition."""


def _committed(brokers: Brokers, group: str) -> _Committed:
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=False
    )
    what = f"asking for the offsets of group {group!r}"

    def attempt() -> _Committed:
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        # Before version 8 the response has one group only (KIP-709).
        answered = answer.groups[0] if answer.groups else answer
        check(what, answered.error_code)
        offsets: _Committed = {}
        for topic in answered.topics:
            for partition in topic.partitions:
                check(what, partition.error_code)
                if partition.committed_offset >= 0:
                    key = (topic.name, partition.partition_index)
                    offsets[key] = (partition.committed_offset, partition.metadata or "", None)
        return offsets

    return brokers.until_final(what, attempt)


def _share_offsets(brokers: Brokers, group: str) -> _Committed:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    what = f"asking for the offsets of share group {group!r}"

    def attempt() -> _Committed:
        request = DescribeShareGroupOffsetsRequest(groups=[asked])
        answered = brokers.ask(brokers.coordinator(GROUP, group), request).groups[0]
        check(what, answered.error_code, answered.error_message)
        return {
            (topic.topic_name, p.partition_index): (p.start_offset, "", None if p.lag < 0 else p.lag)
            for topic in answered.topics
            for p in topic.partitions
            if not p.error_code and p.start_offset >= 0
        }

    return brokers.until_final(what, attempt)


def check_resting(listing: GroupListing) -> None:
    """Raises `KafkaAnswered` for a group with members, because they would go on from their positions and commit those."""
    if listing.state not in RESTING:
        message = f"it is {listing.state}: stop its members first"
        raise KafkaAnswered(f"the offsets of group {listing.group_id!r} cannot be set", Code.NON_EMPTY_GROUP, message)


def commit(brokers: Brokers, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set a group's offsets from outside. A group that does not exist is created. Raises `KafkaAnswered`."""
    listing = next((known for known in list_groups(brokers) if known.group_id == group), None)
    if listing is not None:
        check_resting(listing)
    if listing is not None and listing.group_type.lower() == SHARE:
        _alter_share_offsets(brokers, group, offsets)
        return
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
                for index, offset in of_topic
            ],
        )
        for topic, of_topic in _by_topic(offsets)
    ]
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
    what = f"setting offsets of group {group!r}"

    def attempt() -> None:
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        for topic in answer.topics:
            for partition in topic.partitions:
                check(f"{what} for {topic.name}-{partition.partition_index}", partition.error_code)

    brokers.until_final(what, attempt)


def _alter_share_offsets(brokers: Brokers, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=i, start_offset=o) for i, o in of_topic],
        )
        for topic, of_topic in _by_topic(offsets)
    ]
    what = f"setting offsets of share group {group!r}"

    def attempt() -> None:
        request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        check(what, answer.error_code, answer.error_message)
        for topic in answer.responses:
            for p in topic.partitions:
                check(f"{what} for {topic.topic_name}-{p.partition_index}", p.error_code, p.error_message)

    brokers.until_final(what, attempt)


def _by_topic(offsets: Mapping[TopicPartition, int]) -> Iterable[tuple[str, list[tuple[int, int]]]]:
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append((index, offset))
    return topics.items()


def delete(brokers: Brokers, group: str) -> None:
    """Delete a group. Raises `KafkaAnswered`."""
    what = f"deleting group {group!r}"

    def attempt() -> None:
        result = brokers.ask(brokers.coordinator(GROUP, group), DeleteGroupsRequest(groups_names=[group])).results[0]
        check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt)
