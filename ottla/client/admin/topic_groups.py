"""Finds the groups that have committed offsets for a topic, within a time limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin.activity import MANY_GROUPS_FROM
from ottla.client.admin.groups import SHARE, GroupListing, list_groups
from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.client.errors import ClientError, TimedOut, Unreachable
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

LIMIT_S: Final = 3.0
"""Maximum time to read groups, in seconds."""
REQUEST_S: Final = 1.0
"""Timeout of each request, in seconds, so that a broker that does not answer leaves time for the others."""
MAX_ITEMS: Final = 10_000
"""Maximum number of partitions of all groups in a request. A response has every requested partition, also without an offset."""


@dataclass(slots=True, frozen=True)
class TopicGroups:
    """The groups that have committed offsets for a topic, each with the number of partitions, as far as they could be read.

    ``unread`` is the number of groups whose offsets could not be read, in time or at all. ``unlisted`` has the errors of brokers
    whose groups could not be listed.
    """

    groups: list[tuple[GroupListing, int]]
    unread: int
    unlisted: list[ClientError]


def topic_groups(brokers: BrokerConnections, topic: str, indexes: Iterable[int]) -> TopicGroups:
    """Return the groups that have committed offsets in partitions of a topic, ordered by id. No error is raised."""
    wanted, unlisted, listings, counts = list(indexes), list[ClientError](), list[GroupListing](), dict[str, int]()
    with brokers.within(LIMIT_S, REQUEST_S):
        try:
            listings = list_groups(brokers, unlisted)
        except ClientError as error:
            unlisted.append(error)
        with suppress(ClientError):
            for node in brokers.nodes():
                of_node = [listing for listing in listings if listing.coordinator == node.node_id]
                # No further requests are sent to a broker that does not answer.
                with suppress(TimedOut, Unreachable):
                    for is_share in (False, True):
                        names = [one.group_id for one in of_node if (one.group_type.lower() == SHARE) == is_share]
                        for found in _counts(brokers, node, names, topic, wanted, is_share=is_share):
                            counts |= found
    groups = [(listing, counts[listing.group_id]) for listing in listings if counts.get(listing.group_id)]
    return TopicGroups(groups, sum(listing.group_id not in counts for listing in listings), unlisted)


def _counts(
    brokers: BrokerConnections, node: BrokerNode, names: list[str], topic: str, indexes: list[int], *, is_share: bool
) -> Iterator[dict[str, int]]:
    """Yield numbers of partitions with a committed offset by group, for the groups of each request. Groups with an error are
    missing. Raises `Unreachable` and `TimedOut`."""
    size, at = max(1, MAX_ITEMS // max(1, len(indexes))), 0
    while at < len(names):
        answered: list[str] = []

        def attempt(chosen: list[str] = names[at : at + size], answered: list[str] = answered) -> Any:
            connection, request = brokers.node(node), _request(chosen, topic, indexes, is_share=is_share)
            if not is_share and connection.version(request) < MANY_GROUPS_FROM:
                chosen, request = chosen[:1], _request(chosen[:1], topic, indexes, is_share=is_share)
            answered[:] = chosen
            return brokers.ask(connection, request)

        try:
            answer = brokers.until_final(f"asking broker {node.node_id} for the offsets of its groups", attempt)
            found = dict(_counted(answered, answer))
        except (TimedOut, Unreachable):
            raise
        except ClientError:
            # The broker does not support the request, or rejects the client.
            return
        at += len(answered)
        yield found


def _request(names: list[str], topic: str, indexes: list[int], *, is_share: bool) -> Any:
    if is_share:
        of_topic = DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=indexes)
        return DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=[of_topic]) for name in names]
        )
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)]
    return OffsetFetchRequest(
        group_id=names[0],
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)],
        groups=[OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names],
        require_stable=False,
    )


def _counted(names: list[str], answer: Any) -> Iterator[tuple[str, int]]:
    # Before version 8 an OffsetFetch response has one group only (KIP-709).
    for name, group in zip(names, answer.groups or [answer], strict=True):
        partitions = [partition for topic in group.topics for partition in topic.partitions]
        if not group.error_code and not any(partition.error_code for partition in partitions):
            yield name, sum(_offset(partition) >= 0 for partition in partitions)


def _offset(partition: Any) -> int:
    offset: int = partition.start_offset if hasattr(partition, "start_offset") else partition.committed_offset
    return offset
