"""Plans the reset of a group's offsets: the current and the new offset of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ottla.client.admin.groups import check_resting, list_groups, positions
from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.protocol.topic_partition import TopicPartition

Resolve = Callable[[BrokerConnections, str, Iterable[int]], dict[int, int]]
"""Returns, by partition of a topic, the offset of the position to which a group is reset, such as a time."""


@dataclass(slots=True, frozen=True)
class NewOffset:
    """A group's offset in a partition before and after the reset. ``before`` is None without a committed offset.

    ``after`` is ``wanted``, limited to the log from ``start`` to ``end``, as in kafka-consumer-groups.
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
    """Return the new offsets of a group. ``topics`` has pairs of topic and partition (None: all partitions); by default the offsets
    of all partitions with a committed offset are reset.

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
