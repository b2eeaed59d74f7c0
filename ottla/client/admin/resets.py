"""Plans the reset of a group's offsets: the current and the new offset of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ottla.client.admin.groups import check_resting, list_groups, positions
from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.protocol.topic_partition import TopicPartition

Resolve = Callable[[BrokerConnections, str, Iterable[int]], dict[int, int]]
"""Returns the offset of a position, such as a time, in partitions of a topic."""


@dataclass(slots=True, frozen=True)
class NewOffset:
    """The offset of a group in a partition. ``before`` is None without a committed offset.

    ``wanted`` is the offset of the position; ``after`` is within the log, from ``start`` to ``end``, as in kafka-consumer-groups.
    """

    topic: str
    partition: int
    before: int | None
    wanted: int
    start: int
    end: int

    @property
    def after(self) -> int:
        return min(max(self.wanted, self.start), self.end)


def plan_reset(
    brokers: BrokerConnections, group: str, resolve: Resolve, topics: Sequence[tuple[str, int | None]] = ()
) -> list[NewOffset]:
    """Return the new offsets in ``topics``, each with one partition or None for all; by default in all partitions with a committed
    offset.

    Raises `KafkaAnswered`, also for a group with members.
    """
    listing = next((known for known in list_groups(brokers) if known.group_id == group), None)
    known = [] if listing is None else positions(brokers, listing)
    before = {(p.topic, p.partition): p.committed for p in known if p.committed is not None}
    wanted = _partitions(brokers, topics) if topics else set(before)
    if wanted and listing is not None:
        check_resting(listing)
    planned = []
    for topic in sorted({topic for topic, _ in wanted}):
        indexes = sorted(index for name, index in wanted if name == topic)
        starts = list_offsets(brokers, topic, indexes, EARLIEST)
        ends = list_offsets(brokers, topic, indexes, LATEST)
        offsets = resolve(brokers, topic, indexes)
        planned += [
            NewOffset(
                topic=topic,
                partition=index,
                before=before.get((topic, index)),
                wanted=offsets[index],
                start=starts[index],
                end=ends[index],
            )
            for index in indexes
        ]
    return planned


def _partitions(brokers: BrokerConnections, topics: Iterable[tuple[str, int | None]]) -> set[TopicPartition]:
    wanted: set[TopicPartition] = set()
    for topic, index in topics:
        wanted.update([(topic, each) for each in brokers.partitions(topic)] if index is None else [(topic, index)])
    return wanted
