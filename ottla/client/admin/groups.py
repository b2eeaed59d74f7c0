"""Lists and describes groups of all types with their lag, sets their offsets, and deletes groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ottla.client.admin.positions import GroupPosition, by_topic, positions_of
from ottla.client.cluster import GROUP, BrokerConnections, BrokerNode
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.client.wire.connection import BrokerConnection
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
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
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
"""States of groups without members, whose offsets a client may set."""


@dataclass(slots=True, frozen=True)
class GroupListing:
    group_id: str
    group_type: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(slots=True, frozen=True)
class GroupMember:
    """A member of a group. ``assignment`` has partitions by topic; for a streams group it has tasks by subtopology.

    ``partitions`` are the partitions that the member reads, in every type of group.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assignment: dict[str, list[int]]
    partitions: list[TopicPartition] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class GroupDescription:
    group_id: str
    group_type: str
    state: str
    epoch: int | None
    assignor: str
    members: list[GroupMember]
    positions: list[GroupPosition] = field(default_factory=list)


def list_groups(brokers: BrokerConnections, silent: list[ClientError] | None = None) -> list[GroupListing]:
    """List the groups of all coordinators, ordered by id. An error for an unreachable broker is raised, or added to ``silent`` if
    that is given; the broker's groups are then missing."""

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

    # A group that moves to another coordinator meanwhile may be listed twice.
    listings = {listing.group_id: listing for listing in brokers.of_all("listing groups", ask, silent)}
    return [listings[name] for name in sorted(listings)]


def find(brokers: BrokerConnections, group: str) -> GroupListing:
    """Return a group's entry in ListGroups. Raises `KafkaAnswered` for a group that is unknown, or that this user may not
    describe."""
    listing = next((listing for listing in list_groups(brokers) if listing.group_id == group), None)
    if listing is None:
        raise _unknown(brokers, group)
    return listing


def _unknown(brokers: BrokerConnections, group: str) -> KafkaAnswered:
    # ListGroups omits groups that this user may not describe; FindCoordinator returns an error for them.
    brokers.until_final(f"describing group {group!r}", lambda: brokers.coordinator(GROUP, group))
    message = "ottla group list shows the groups"
    return KafkaAnswered(f"unknown group {group!r} at {brokers.bootstrap}", Code.GROUP_ID_NOT_FOUND, message)


def describe(brokers: BrokerConnections, group: str) -> GroupDescription:
    """Describe a group. Raises `KafkaAnswered` for an unknown group."""
    return _describe(brokers, find(brokers, group))


def _describe(brokers: BrokerConnections, listing: GroupListing) -> GroupDescription:
    group, kind = listing.group_id, listing.group_type.lower()
    if kind not in _DESCRIBE:
        raise ClientError(f"group {group!r} has the type {listing.group_type!r}, which this client does not support")
    request, what = _DESCRIBE[kind](group), f"describing group {group!r}"

    def attempt() -> Any:
        described = brokers.ask(brokers.coordinator(GROUP, group), request).groups[0]
        check(what, described.error_code, described.error_message)
        return described

    described = brokers.until_final(what, attempt)
    members = [_member(kind, member, described) for member in described.members]
    return GroupDescription(
        group_id=group,
        group_type=kind,
        state=described.group_state,
        epoch=None if kind == CLASSIC else described.group_epoch,
        assignor=(described.protocol_data if kind == CLASSIC else described.assignor_name) or "",
        members=members,
        positions=_positions(brokers, listing, members),
    )


def _member(kind: str, member: Any, described: Any) -> GroupMember:
    make = partial(
        GroupMember,
        member_id=member.member_id,
        # Members of share groups have no instance id.
        instance_id=getattr(member, "group_instance_id" if kind == CLASSIC else "instance_id", None),
        client_id=member.client_id,
        host=member.client_host,
        epoch=None if kind == CLASSIC else member.member_epoch,
    )
    if kind == STREAMS:
        tasks = {task.subtopology_id: sorted(task.partitions) for task in member.assignment.active_tasks}
        return make(assignment=tasks, partitions=_of_tasks(tasks, described.topology))
    if kind == CLASSIC:
        # Only consumers encode assignments as ConsumerProtocolAssignment. Kafka Connect, which also uses the classic protocol, does
        # not.
        is_consumer = described.protocol_type in ("", CONSUMER)
        assignment = _classic_assignment(member.member_assignment) if is_consumer else {}
    else:
        assignment = {part.topic_name: sorted(part.partitions) for part in member.assignment.topic_partitions}
    return make(assignment=assignment, partitions=by_topic(assignment))


def _of_tasks(tasks: dict[str, list[int]], topology: Any) -> list[TopicPartition]:
    """Return the partitions that tasks of a streams group read. Tasks of subtopologies that are not in ``topology`` are skipped."""
    subtopologies = [] if topology is None else topology.subtopologies or []
    sources = {s.subtopology_id: [*s.source_topics, *(t.name for t in s.repartition_source_topics)] for s in subtopologies}
    return sorted((topic, index) for task, indexes in tasks.items() for topic in sources.get(task, ()) for index in indexes)


def _classic_assignment(raw: bytes) -> dict[str, list[int]]:
    try:
        version = min(int.from_bytes(raw[:2], "big"), consumer_protocol_assignment.MAX_VERSION)
        assignment = decode_body(consumer_protocol_assignment.decode, raw, 2, version, may_trail=True)
    except DecodeError:
        return {}
    return {part.topic: sorted(part.partitions) for part in assignment.assigned_partitions}


def lag(brokers: BrokerConnections, group: str) -> dict[TopicPartition, int]:
    """Return the lag of a group by partition: the number of offsets from the committed offset to the high watermark. The lag counts
    from the log start if a member owns the partition and no offset is committed. Raises `KafkaAnswered`."""
    return {(p.topic, p.partition): p.unread for p in positions(brokers, find(brokers, group))}


def positions(brokers: BrokerConnections, listing: GroupListing) -> list[GroupPosition]:
    """Return the group's positions in partitions that have a committed offset or that a member owns, ordered by topic and
    partition."""
    if listing.state in RESTING:
        return _positions(brokers, listing, [])
    return _describe(brokers, listing).positions


def _positions(brokers: BrokerConnections, listing: GroupListing, members: list[GroupMember]) -> list[GroupPosition]:
    owned = {partition for member in members for partition in member.partitions}
    return positions_of(brokers, listing.group_id, is_share=listing.group_type.lower() == SHARE, owned=owned)


def check_resting(listing: GroupListing) -> None:
    """Raise `KafkaAnswered` for a group with members, because the members would overwrite the offsets with their next commits."""
    if listing.state not in RESTING:
        message = f"the group is {listing.state}; stop its members first"
        raise KafkaAnswered(f"the offsets of group {listing.group_id!r} cannot be set", Code.NON_EMPTY_GROUP, message)


def check_deletable(brokers: BrokerConnections, group: str, listing: GroupListing | None) -> None:
    """Raise `KafkaAnswered` for a group that does not exist (``listing`` is None) or has members."""
    if listing is None:
        raise _unknown(brokers, group)
    if listing.state not in RESTING:
        message = f"the group is {listing.state}; stop its members first"
        raise KafkaAnswered(f"group {group!r} cannot be deleted", Code.NON_EMPTY_GROUP, message)


def commit(brokers: BrokerConnections, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set a group's offsets. A group that does not exist is created. Raises `KafkaAnswered`, also for a group with members."""
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


def _alter_share_offsets(brokers: BrokerConnections, group: str, offsets: Mapping[TopicPartition, int]) -> None:
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


def delete(brokers: BrokerConnections, group: str) -> None:
    what = f"deleting group {group!r}"

    def attempt() -> None:
        result = brokers.ask(brokers.coordinator(GROUP, group), DeleteGroupsRequest(groups_names=[group])).results[0]
        check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt)
