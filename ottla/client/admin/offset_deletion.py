"""Deletes a group's committed offsets of topics or partitions (OffsetDelete, KIP-496; DeleteShareGroupOffsets, KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.admin.groups import RESTING, SHARE, GroupListing, describe, find, positions
from ottla.client.admin.positions import GroupPosition
from ottla.client.cluster import GROUP, BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.protocol.errors import Code
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.topic_partition import TopicPartition


def plan_offset_deletion(brokers: BrokerConnections, group: str, topics: Sequence[tuple[str, int | None]]) -> list[GroupPosition]:
    """Return the positions whose committed offsets `delete_offsets` would delete. ``topics`` has pairs of topic and partition
    (None: all partitions).

    Raises `ClientError` if a topic or partition has no committed offset of the group, because its name may be misspelled, and if a
    member of the group reads a topic, because the coordinator then refuses the deletion.
    """
    listing = find(brokers, group)
    is_share = _is_share(listing)
    if listing.state in RESTING:
        known = positions(brokers, listing)
    else:
        described = describe(brokers, group)
        known = described.positions
        read = {topic for member in described.members for topic, _ in member.partitions}
        for topic, _ in topics:
            if topic in read or is_share:
                raise _in_use(group, topic)
    committed = [position for position in known if is_share or position.committed is not None]
    wanted = []
    for topic, index in topics:
        if is_share and index is not None:
            raise ClientError(f"the offsets of a share group are deleted by topic; give {topic} instead of {topic}:{index}")
        found = [one for one in committed if one.topic == topic and index in (None, one.partition)]
        if not found:
            where = topic if index is None else f"{topic}:{index}"
            raise ClientError(f"group {group!r} has no committed offset of {where}; ottla group describe shows its offsets")
        wanted += found
    return sorted({(one.topic, one.partition): one for one in wanted}.values(), key=lambda one: (one.topic, one.partition))


def delete_offsets(brokers: BrokerConnections, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete a group's committed offsets of partitions. Of a share group, delete the offsets of all partitions of the topics.

    Raises `KafkaAnswered`, also for a topic to which a member of the group subscribes; the offsets of other topics may already be
    deleted.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    if _is_share(find(brokers, group)):
        _delete_share_offsets(brokers, group, by_topic)
        return
    asked = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes])
        for topic, indexes in by_topic.items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=asked)
    what = f"deleting offsets of group {group!r}"

    def attempt() -> None:
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        check(what, answer.error_code)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code == Code.GROUP_SUBSCRIBED_TO_TOPIC:
                    raise _in_use(group, topic.name)
                check(f"{what} for {topic.name}-{partition.partition_index}", partition.error_code)

    brokers.until_final(what, attempt)


def _is_share(listing: GroupListing) -> bool:
    return listing.group_type.lower() == SHARE


def _in_use(group: str, topic: str) -> KafkaAnswered:
    what = f"the offsets of group {group!r} in topic {topic!r} cannot be deleted"
    return KafkaAnswered(
        what, Code.GROUP_SUBSCRIBED_TO_TOPIC, "a member of the group subscribes to the topic; stop its members first"
    )


def _delete_share_offsets(brokers: BrokerConnections, group: str, topics: Iterable[str]) -> None:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    what = f"deleting offsets of share group {group!r}"

    def attempt() -> None:
        request = DeleteShareGroupOffsetsRequest(group_id=group, topics=asked)
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        check(what, answer.error_code, answer.error_message)
        for topic in answer.responses:
            check(f"{what} for {topic.topic_name}", topic.error_code, topic.error_message)

    brokers.until_final(what, attempt)
