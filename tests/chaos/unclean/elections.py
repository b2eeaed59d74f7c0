"""Leader elections of a run, read from the controller's metadata log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.records import batches, read_records
from ottla.protocol.topic_partition import TopicPartition
from ottla.testing.cluster_handle import CONTROLLER

CLEAN, ELIGIBLE, LAST_KNOWN, UNCLEAN = "clean", "eligible", "last known leader", "unclean"


class Election(NamedTuple):
    """A change of a partition's leader. Only the leader of an `UNCLEAN` election may lack records below the high watermark."""

    where: TopicPartition
    leader_epoch: int
    leader: int
    kind: str


def elections(records: Iterable[LogRecord]) -> Iterator[Election]:
    """Yield the elections in a metadata log, except the first leader of each partition."""
    state = ClusterState(CONTROLLER)
    before: dict[TopicPartition, PartitionRegistration] = {}
    for record in records:
        state.replay(record)
        for topic in state.topics.values():
            for index, partition in enumerate(topic.partitions):
                where = (topic.name, index)
                last = before.get(where)
                before[where] = partition
                if last is not None and partition.has_leader and partition.leader != last.leader:
                    yield Election(where, partition.leader_epoch, partition.leader, _kind(last, partition.leader))


def _kind(before: PartitionRegistration, leader: int) -> str:
    if leader in before.isr:
        return CLEAN
    if leader in before.elr:
        return ELIGIBLE
    return LAST_KNOWN if before.last_known_elr == (leader,) else UNCLEAN


def logged_elections(controller_dir: Path) -> list[Election]:
    return list(elections(_records(controller_dir / f"{METADATA_TOPIC}-0")))


def _records(directory: Path) -> Iterator[LogRecord]:
    for path in sorted(directory.glob("*.log")):
        raw = path.read_bytes()
        for at, header in batches(raw):
            for record in () if header.is_control else read_records(raw[at : at + header.size_bytes]):
                yield LogRecord(record.key, record.value)


def counted(found: Iterable[Election]) -> Counter[str]:
    return Counter(election.kind for election in found)
