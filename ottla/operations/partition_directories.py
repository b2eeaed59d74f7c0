"""The partition directories of a cluster's brokers, and topics rebuilt from them.

A directory has its topic's id in ``partition.metadata``. It does not show configs, replicas on other brokers, or partitions without
records, which have no directory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.coordinator.metadata.cluster import PRODUCER_ID_BLOCK, ClusterState, as_allotted
from ottla.coordinator.metadata.partition_registration import NO_LEADER, PartitionRegistration
from ottla.coordinator.metadata.topics import MAX_PARTITIONS_PER_TOPIC, Topic
from ottla.operations.metadata_log import DEFAULT_FEATURES
from ottla.operations.segments import sound_batches
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.uuids import uuid_text
from ottla.storage.checkpoints import LeaderEpochs, read_partition_metadata
from ottla.storage.filesystem import Filesystem
from ottla.storage.names import name_before_stray, parse_directory_name
from ottla.storage.segment import LOG_SUFFIX, parse_file_name

ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"
"""Kafka keeps the level of this feature in control records of the log."""


@dataclass(slots=True, frozen=True)
class Found:
    """A partition's directory on one broker. ``name`` has the topic's name, which may be truncated in a stray directory."""

    node_id: int
    path: str
    name: str
    index: int
    topic_id: bytes
    is_stray: bool


class PartitionDirectories:
    """All partition directories under ``brokers``, the brokers' directories by node id, without the copies of the metadata log."""

    def __init__(self, fs: Filesystem, brokers: Mapping[int, str]) -> None:
        self.fs = fs
        self.brokers = brokers
        self.found = [found for node_id, path in sorted(brokers.items()) for found in self._in(node_id, path)]

    def _in(self, node_id: int, path: str) -> Iterator[Found]:
        for name in self.fs.list_dir(path):
            before = name_before_stray(name)
            parsed = parse_directory_name(before or name)
            if parsed is None or parsed[0] == METADATA_TOPIC or not self.fs.is_dir(f"{path}/{name}"):
                continue
            try:
                topic_id = read_partition_metadata(self.fs, f"{path}/{name}") or NO_UUID
            except OSError:
                topic_id = NO_UUID
            yield Found(node_id, f"{path}/{name}", parsed[0], parsed[1], topic_id, before is not None)

    def notes(self, state: ClusterState) -> Iterator[str]:
        """Describe each directory that its broker will set aside, and each stray directory of an existing topic."""
        for found in self.found:
            topic = state.topics_by_id.get(found.topic_id)
            is_of_topic = topic is not None and found.index < topic.partition_count
            if not found.is_stray and not is_of_topic:
                whose = "has no topic id" if found.topic_id == NO_UUID else f"has the topic id {uuid_text(found.topic_id)}"
                yield f"{found.path} {whose}, which no topic has; its broker will rename it to a stray directory"
            elif found.is_stray and topic is not None and is_of_topic:
                own = f"{self.brokers[found.node_id]}/{topic.name}-{found.index}"
                first = f"move {own} away, then " if self.fs.is_dir(own) else ""
                yield f"{found.path} belongs to topic {topic.name}; before its broker starts: {first}mv {found.path} {own}"


def topics_of(directories: PartitionDirectories, directory_ids: Mapping[int, bytes], unknown: list[str]) -> ClusterState:
    """Rebuild the topics from partition directories. ``unknown`` collects a line for each fact that the directories do not show."""
    state = ClusterState(0)
    # Eligible leader replicas are disabled: with them, a partition's only replica could not become leader after a shutdown unknown
    # to the controller.
    state.features = {name: level for name, level in DEFAULT_FEATURES.items() if name not in (KRAFT_VERSION, ELR_VERSION)}
    by_topic: dict[tuple[str, bytes], dict[int, list[Found]]] = {}
    for found in directories.found:
        if not found.is_stray and found.topic_id != NO_UUID and found.index < MAX_PARTITIONS_PER_TOPIC:
            by_topic.setdefault((found.name, found.topic_id), {}).setdefault(found.index, []).append(found)
    ids = Counter({key: sum(map(len, partitions.values())) for key, partitions in by_topic.items()})
    highest = -1
    for (name, topic_id), _ in ids.most_common():
        if name in state.topics:
            unknown.append(f"which topic {name} is the newest: the topic with the id {uuid_text(topic_id)} was left out")
            continue
        partitions = by_topic[name, topic_id]
        topic = state.topics[name] = Topic(name, topic_id)
        state.topics_by_id[topic_id] = topic
        missing = [index for index in range(max(partitions)) if index not in partitions]
        if missing:
            unknown.append(
                f"whether {name} has records in partitions {_listed(missing)}, which have no directory here: they are created empty"
            )
        replicas = sorted({found.node_id for each in partitions.values() for found in each})
        for index in range(max(partitions) + 1):
            partition, producer_id = _partition(directories.fs, partitions.get(index, []), replicas[:1], directory_ids)
            topic.partitions.append(partition)
            highest = max(highest, producer_id)
    state.next_producer_id = (highest // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK
    unknown += [
        "topics and partitions without a directory here, which have no records or are on brokers that were not given",
        "configs of topics, brokers and groups, quotas, SCRAM credentials and ACLs: all are at their defaults",
        f"the feature levels: those of a new cluster, metadata.version {state.features['metadata.version']}, and no {ELR_VERSION}",
    ]
    return state


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")


def _partition(
    fs: Filesystem, found: list[Found], otherwise: list[int], directory_ids: Mapping[int, bytes]
) -> tuple[PartitionRegistration, int]:
    """Return a partition without a leader, and the highest producer id in it.

    The in-sync replicas are unknown. The replica with the highest log end offset counts as the only in-sync replica: the controller
    elects it when its broker has started, and the other replicas copy its log.
    """
    read = {one.node_id: _read(fs, one.path) for one in found}
    replicas = tuple(sorted(read, key=lambda node_id: read[node_id][:2], reverse=True)) or tuple(otherwise)
    registration = PartitionRegistration(
        replicas=replicas,
        isr=replicas[:1],
        leader=NO_LEADER,
        leader_epoch=max((epoch for epoch, _, _ in read.values()), default=0) + 1,
        partition_epoch=0,
        directories=tuple(directory_ids[node_id] for node_id in replicas),
    )
    return registration, max((position[2] for position in read.values()), default=-1)


def _read(fs: Filesystem, path: str) -> tuple[int, int, int]:
    """Return leader epoch, end offset and highest producer id of a log, up to the first damaged batch."""
    epochs = LeaderEpochs(fs, path)
    epochs.load()
    epoch, end_offset, highest = max(epochs.latest, 0), 0, -1
    for name in sorted(n for n in fs.list_dir(path) if n.endswith(LOG_SUFFIX)):
        with sound_batches(fs, f"{path}/{name}", max(parse_file_name(name, LOG_SUFFIX) or 0, end_offset)) as sound:
            for _, header, _ in sound:
                epoch, end_offset = max(epoch, header.leader_epoch), header.next_offset
                highest = max(highest, as_allotted(header.producer_id))
            if not sound.is_whole:
                break
    return epoch, end_offset, highest
