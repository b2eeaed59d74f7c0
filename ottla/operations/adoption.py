"""Taking topics of an Apache Kafka data directory over: a copy of production, one partition, or files without any metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from ottla.coordinator.cluster import MAX_PARTITIONS_PER_TOPIC, METADATA_TOPIC, TOPIC_RESOURCE, ClusterState, Topic
from ottla.coordinator.result import LogRecord
from ottla.operations.copying import COPIED, Progress, copy
from ottla.operations.metadata_log import DEFAULT_FEATURES, METADATA_CONFIG, METADATA_DIRECTORY, RECORDS_PER_BATCH, replay_batch
from ottla.operations.segments import sound_batches
from ottla.protocol.errors import DecodeError, KafkaError
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import build_batch, crc_is_valid
from ottla.storage import snapshot
from ottla.storage.checkpoints import LeaderEpochs, read_partition_metadata
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError, Identity, read_identity, write_identity
from ottla.storage.log import Log
from ottla.storage.log_dir import CLEAN_FILE
from ottla.storage.names import TopicPartition, parse_directory_name
from ottla.storage.reading import all_batches
from ottla.storage.recovery import open_log
from ottla.storage.segment import LOG_SUFFIX, parse_file_name
from ottla.storage.walk import batches


@dataclass(slots=True)
class PartitionDirectory:
    """A partition that is to be taken over: where it lies, the size of its logs, and the newest leader epoch in them."""

    path: str
    size_bytes: int
    leader_epoch: int


@dataclass(slots=True)
class AdoptionPlan:
    """What is to be taken over from Apache Kafka. ``partitions`` by topic and number."""

    topics: dict[str, Topic] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionDirectory] = field(default_factory=dict)
    next_producer_id: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(p.size_bytes for p in self.partitions.values())


def plan_adoption(fs: Filesystem, source: str, wanted: Collection[str], random_uuid: Iterable[bytes]) -> AdoptionPlan:
    """Read a Kafka data directory, or one partition's, without writing to it.

    ``wanted`` are topics, none means all. Raises `DirectoryError`, naming file and offset, or OSError.
    """
    plan = AdoptionPlan()
    metadata = _metadata(fs, f"{source}/{METADATA_DIRECTORY}", plan.notes)
    plan.next_producer_id = metadata.next_producer_id
    directories = _directories(fs, source)
    for name in wanted:
        if not any(topic == name for topic, _ in directories):
            raise DirectoryError(f"{source} has no partition of {name}")
    ids = iter(random_uuid)
    for (topic, index), path in sorted(directories.items()):
        if wanted and topic not in wanted:
            continue
        if index >= MAX_PARTITIONS_PER_TOPIC:
            raise DirectoryError(f"{path}: a topic has at most {MAX_PARTITIONS_PER_TOPIC} partitions; rename or remove it")
        adopted, highest = _partition(fs, path, plan.notes)
        plan.partitions[topic, index] = adopted
        plan.next_producer_id = max(plan.next_producer_id, highest + 1)
        known = plan.topics.get(topic)
        if known is None:
            described = metadata.topics.get(topic)
            topic_id = read_partition_metadata(fs, path) or (described.topic_id if described is not None else NO_UUID)
            known = plan.topics[topic] = Topic(topic, topic_id if topic_id != NO_UUID else next(ids))
            known.leader_epochs = list(described.leader_epochs) if described is not None else []
            plan.configs[topic] = dict(metadata.config_of(TOPIC_RESOURCE, topic))
        epochs = known.leader_epochs
        epochs += [0] * (index + 1 - len(epochs))
        epochs[index] = max(epochs[index], adopted.leader_epoch)
    if not plan.topics:
        raise DirectoryError(f"{source} holds no partition directories")
    return plan


def _directories(fs: Filesystem, source: str) -> dict[TopicPartition, str]:
    """The path of each partition's directory; ``source`` may be one itself."""
    own = parse_directory_name(source.rstrip("/").rpartition("/")[2])
    names = fs.list_dir(source)
    if own is not None and any(n.endswith(LOG_SUFFIX) for n in names):
        return {own: source}
    directories = {}
    for name in names:
        partition, path = parse_directory_name(name), f"{source}/{name}"
        if partition is not None and partition[0] != METADATA_TOPIC and fs.is_dir(path) and fs.list_dir(path):
            directories[partition] = path
    return directories


def _metadata(fs: Filesystem, directory: str, notes: list[str]) -> ClusterState:
    """Topics, configs and producer ids as far as the KRaft log has them.

    Records of other kinds, and batches that cannot be read, are passed over. ``notes`` say where there is no such log.
    """
    state = ClusterState(0)
    names = fs.list_dir(directory)
    snapshots = sorted(n for n in names if n.endswith(".checkpoint") and "-" in n)
    for name in [*snapshots[-1:], *sorted(n for n in names if n.endswith(LOG_SUFFIX))]:
        with closing(fs.open(f"{directory}/{name}")) as file:
            for _, header, raw in batches(file):
                if crc_is_valid(raw, header):
                    replay_batch(state, header, raw, is_strict=False)
    if not names:
        notes.append("no cluster metadata: topics get default configs")
    return state


def _partition(fs: Filesystem, path: str, notes: list[str]) -> tuple[PartitionDirectory, int]:
    """Reads a partition through: the partition, and the highest producer id in it. ``notes`` get what is cut at a start."""
    logs = sorted(n for n in fs.list_dir(path) if n.endswith(LOG_SUFFIX))
    size_bytes, epoch, highest, next_offset = 0, 0, -1, 0
    for name in logs:
        base_offset = parse_file_name(name, LOG_SUFFIX)
        if base_offset is None:
            raise DirectoryError(f"{path}/{name}: not the name of a segment")
        with sound_batches(fs, f"{path}/{name}", max(base_offset, next_offset)) as sound:
            for _, header, _ in sound:
                epoch, highest = max(epoch, header.leader_epoch), max(highest, header.producer_id)
            size = sound.file.size
            if not sound.is_whole and name != logs[-1]:
                # A start would cut the log here, and remove all later segments.
                raise DirectoryError(f"{path}/{name}: damaged after offset {sound.next_offset}, byte {sound.end} of {size}")
        if not sound.is_whole:
            notes.append(f"{path}/{name}: {size - sound.end} bytes at the end are no whole batch and will be cut")
        size_bytes, next_offset = size_bytes + size, sound.next_offset
    for offset in snapshot.offsets(fs, path):
        entries = snapshot.decode(fs.read_file(snapshot.path_of(path, offset)) or b"") or []
        highest = max([highest, *(e.producer_id for e in entries)])
    epochs = LeaderEpochs(fs, path)
    epochs.load()
    return PartitionDirectory(path, size_bytes, max(epoch, epochs.latest)), highest


def carry_out(fs: Filesystem, target: str, plan: AdoptionPlan, identity: Identity, now_ms: int, progress: Progress) -> None:
    """Copy the partitions, then enter them into the metadata: a topic is there as a whole, or not at all."""
    fs.make_dir(target)
    identity = read_identity(fs, target) or identity
    state = ClusterState(identity.node_id)
    metadata = Log(fs, f"{target}/{METADATA_DIRECTORY}", METADATA_TOPIC, 0, METADATA_CONFIG)
    open_log(metadata, now_ms, clean=False)
    try:
        for header, raw in all_batches(metadata):
            replay_batch(state, header, raw, is_strict=True)
    except DecodeError as error:
        raise DirectoryError(f"{metadata.directory}: {error}") from error
    taken = [name for name in plan.topics if name in state.topics]
    if taken:
        raise DirectoryError(f"{target} has a topic {taken[0]} already")
    made: list[str] = []
    try:
        _copy(fs, target, plan, made, progress)
        write_identity(fs, target, identity)
        for batch in _records(state, plan):
            metadata.append_own(build_batch(((r.key, r.value) for r in batch), now_ms), now_ms)
    except (OSError, KafkaError):
        for directory in made:
            fs.remove_dir(directory)
        raise
    metadata.close()
    # Without the file of a clean stop the next start reads every batch of what came from elsewhere.
    fs.unlink(f"{target}/{CLEAN_FILE}")


def _copy(fs: Filesystem, target: str, plan: AdoptionPlan, made: list[str], progress: Progress) -> None:
    done, total = 0, plan.size_bytes
    for (topic, index), adopted in plan.partitions.items():
        directory = f"{target}/{topic}-{index}"
        fs.make_dir(directory)
        made.append(directory)
        for name in fs.list_dir(adopted.path):
            if not name.endswith(COPIED):
                continue
            for size in copy(fs, f"{adopted.path}/{name}", f"{directory}/{name}"):
                if name.endswith(LOG_SUFFIX):
                    done += size
                    progress(done, total)


def _records(state: ClusterState, plan: AdoptionPlan) -> Iterable[list[LogRecord]]:
    """The records that the metadata log of the target still lacks, a batch at a time."""
    fresh = ClusterState(state.node_id)
    if not state.features:
        fresh.features = dict(DEFAULT_FEATURES)
    fresh.topics = plan.topics
    fresh.configs = {(TOPIC_RESOURCE, name): configs for name, configs in plan.configs.items() if configs}
    fresh.next_producer_id = max(state.next_producer_id, plan.next_producer_id)
    records = fresh.snapshot()
    return [records[at : at + RECORDS_PER_BATCH] for at in range(0, len(records), RECORDS_PER_BATCH)]
