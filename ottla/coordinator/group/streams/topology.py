"""The topology of a streams group, from its members' heartbeats or its record (StreamsTopology of Kafka)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from ottla.coordinator.group.streams.java_order import hash_order
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages import streams_group_heartbeat as heartbeat
from ottla.protocol.messages.streams_group_topology_value import StreamsGroupTopologyValue, Subtopology


class Topology(msgspec.Struct, frozen=True):
    """Subtopologies by id. The order of subtopologies does not matter for equality."""

    epoch: int
    subtopologies: dict[str, Subtopology]

    def in_order(self) -> Iterator[Subtopology]:
        """Yield subtopologies in Kafka's order, because partition counts of internal topics may depend on it."""
        return (self.subtopologies[subtopology_id] for subtopology_id in hash_order(self.subtopologies))

    def required_topics(self) -> set[str]:
        """Return all topics that the topology reads, and its changelog topics."""
        return {
            topic
            for one in self.subtopologies.values()
            for topic in chain(sources_of(one), (changelog.name for changelog in one.state_changelog_topics))
        }

    def source_topics(self) -> set[str]:
        """Return all topics that the topology reads."""
        return {topic for one in self.subtopologies.values() for topic in sources_of(one)}

    def subtopology_of(self, topic: str) -> str | None:
        """Return the id of the last subtopology that reads the topic, or None."""
        reading = None
        for one in self.in_order():
            if topic in sources_of(one):
                reading = one.subtopology_id
        return reading

    def as_value(self) -> StreamsGroupTopologyValue:
        return StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=list(self.subtopologies.values()))


def sources_of(subtopology: Subtopology | heartbeat.Subtopology) -> list[str]:
    """Return the user's source topics, then the repartition topics."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def topology_of(value: StreamsGroupTopologyValue) -> Topology:
    return Topology(value.epoch, {one.subtopology_id: one for one in value.subtopologies})


def topology_from_heartbeat(sent: heartbeat.Topology) -> Topology:
    """Convert a topology that was checked with `check_topic_names` and `check_topology`."""
    return topology_of(msgspec.convert(sent, StreamsGroupTopologyValue, from_attributes=True))


def check_topic_names(sent: heartbeat.Topology) -> None:
    """Raise STREAMS_INVALID_TOPOLOGY for a bad topic name. KafkaApis checks names before the rest of a heartbeat."""
    for one in sent.subtopologies:
        changelogs = (topic.name for topic in one.state_changelog_topics)
        for name in chain(sources_of(one), one.repartition_sink_topics, changelogs):
            if name in INTERNAL_TOPICS:
                raise _invalid(f"A Kafka Streams topology cannot have the internal topic {name}.")
            try:
                check_topic_name(name)
            except KafkaError as error:
                raise _invalid(f"{name} is not a topic name: {error.message}") from error


def check_topology(sent: heartbeat.Topology) -> None:
    """Raise STREAMS_INVALID_TOPOLOGY for an invalid topology (GroupCoordinatorService.throwIfInvalidTopology).

    For repeated ids and names, and for copartition groups of missing topics, Kafka returns UNKNOWN_SERVER_ERROR.
    """
    seen: set[str] = set()
    for one in sent.subtopologies:
        if one.subtopology_id in seen:
            raise _invalid(f"Subtopology {one.subtopology_id} occurs twice.")
        seen.add(one.subtopology_id)
        for changelog in one.state_changelog_topics:
            if changelog.partitions != 0:
                raise _invalid(f"Changelog topic {changelog.name} has {changelog.partitions} partitions; the broker counts them.")
        for topic in one.repartition_source_topics:
            if topic.partitions < 0:
                raise _invalid(f"Repartition topic {topic.name} has {topic.partitions} partitions.")
        _check_no_topic_twice(one.subtopology_id, one.repartition_source_topics)
        _check_no_topic_twice(one.subtopology_id, one.state_changelog_topics)
        for group in one.copartition_groups:
            _check_copartition_group(one, group)


def _check_no_topic_twice(subtopology_id: str, topics: Iterable[heartbeat.TopicInfo]) -> None:
    seen: set[str] = set()
    for topic in topics:
        if topic.name in seen:
            raise _invalid(f"Topic {topic.name} occurs twice in subtopology {subtopology_id}.")
        seen.add(topic.name)


def _check_copartition_group(subtopology: heartbeat.Subtopology, group: heartbeat.CopartitionGroup) -> None:
    counts = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
    indexes = group.source_topics, group.repartition_source_topics
    if any(not 0 <= at < count for count, named in zip(counts, indexes, strict=True) for at in named):
        raise _invalid(f"A copartition group of subtopology {subtopology.subtopology_id} contains a topic that does not exist.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(Code.STREAMS_INVALID_TOPOLOGY, message)


def required_topics_hash(topology: Topology, topics: GroupTopics) -> int:
    """Return a hash of the existing topics that the topology needs. If it changes, a new target is computed (KIP-1101).

    Kafka uses another hash function, XXH3, so a group that comes from Apache Kafka gets a new target once, with the same tasks.
    """
    existing = [(name, topic_id) for name in sorted(topology.required_topics()) if (topic_id := topics.topic_id(name)) is not None]
    if not existing:
        return 0
    hasher = hashlib.blake2b(digest_size=8)
    for name, topic_id in existing:
        encoded = name.encode()
        hasher.update(topic_id + topics.partition_count(name).to_bytes(4, "big") + len(encoded).to_bytes(4, "big") + encoded)
    return int.from_bytes(hasher.digest(), "big", signed=True)
