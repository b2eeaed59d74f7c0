"""Taking topics of an Apache Kafka data directory over: a copy of production, one partition, or files without any metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from ottla.coordinator.cluster import MAX_PARTITIONS_PER_TOPIC, METADATA_TOPIC, TOPIC_RESOURCE, ClusterState, Topic
from ottla.coordinator.result import LogRecord
from ottla.operations.graduation import Progress, copy
from ottla.operations.metadata_log import DEFAULT_FEATURES, METADATA_CONFIG, METADATA_DIRECTORY
from ottla.operations.segments import has_only_zeros, sound_batches
from ottla.protocol.errors import DecodeError, KafkaError
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import build_batch, crc_is_valid
from ottla.storage import snapshot
from ottla.storage.checkpoints import LeaderEpochs, read_partition_metadata
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError, Identity, read_identity, write_identity
from ottla.storage.log import Log
from ottla.storage.log_dir import CLEAN_FILE
from ottla.storage.names import parse_directory_name
from ottla.storage.reading import all_batches, records_of
from ottla.storage.recovery import open_log
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, parse_file_name
from ottla.storage.walk import batches

_COPIED = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
RECORDS_A_BATCH = 1_000


@dataclass(slots=True)
class Adopted:
    """One partition directory: where it lies, its size, and the newest leader epoch in it."""

    path: str
    size_bytes: int
    leader_epoch: int


@dataclass(slots=True)
class Plan:
    """What would be taken over. ``partitions`` by topic and number."""

    topics: dict[str, Topic] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Adopted] = field(default_factory=dict)
    next_producer_id: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(p.size_bytes for p in self.partitions.values())


def plan(fs: Filesystem, source: str, wanted: Collection[str], random_uuid: Iterable[bytes]) -> Plan:
    """Read a Kafka data directory, or one partition's, without writing to it.

    ``wanted`` are topics, none means all. Raises `DirectoryError`, naming file and offset, or OSError.
    """
    found = Plan()
    metadata = _metadata(fs, f"{source}/{METADATA_DIRECTORY}", found.notes)
    found.next_producer_id = metadata.next_producer_id
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
        adopted, highest = _partition(fs, path, found.notes)
        found.partitions[topic, index] = adopted
        found.next_producer_id = max(found.next_producer_id, highest + 1)
        known = found.topics.get(topic)
        if known is None:
            told = metadata.topics.get(topic)
            topic_id = read_partition_metadata(fs, path) or (told.topic_id if told is not None else NO_UUID)
            known = found.topics[topic] = Topic(topic, topic_id if topic_id != NO_UUID else next(ids))
            known.leader_epochs = list(told.leader_epochs) if told is not None else []
            found.configs[topic] = dict(metadata.config_of(TOPIC_RESOURCE, topic))
        epochs = known.leader_epochs
        epochs += [0] * (index + 1 - len(epochs))
        epochs[index] = max(epochs[index], adopted.leader_epoch)
    if not found.topics:
        raise DirectoryError(f"{source} holds no partition directories")
    return found


def _directories(fs: Filesystem, source: str) -> dict[tuple[str, int], str]:
    own = parse_directory_name(source.rstrip("/").rpartition("/")[2])
    names = fs.list_dir(source)
    if own is not None and any(n.endswith(LOG_SUFFIX) for n in names):
        return {own: source}
    found = {}
    for name in names:
        parsed = parse_directory_name(name)
        if parsed is not None and parsed[0] != METADATA_TOPIC and fs.is_dir(f"{source}/{name}") and fs.list_dir(f"{source}/{name}"):
            found[parsed] = f"{source}/{name}"
    return found


def _metadata(fs: Filesystem, directory: str, notes: list[str]) -> ClusterState:
    """Topics, configs and producer ids as far as the KRaft log tells; records of other kinds are passed over."""
    state = ClusterState(0)
    names = fs.list_dir(directory)
    snapshots = sorted(n for n in names if n.endswith(".checkpoint") and "-" in n)
    for name in [*snapshots[-1:], *sorted(n for n in names if n.endswith(LOG_SUFFIX))]:
        with closing(fs.open(f"{directory}/{name}")) as file:
            for _, header, raw in batches(file):
                if header.is_control or not crc_is_valid(raw, header):
                    continue
                for record in records_of(raw, header):
                    try:
                        state.replay(LogRecord(record.key, record.value))
                    except (DecodeError, KeyError, IndexError):
                        continue
    if not names:
        notes.append("no cluster metadata: topics get default configs")
    return state


def _partition(fs: Filesystem, path: str, notes: list[str]) -> tuple[Adopted, int]:
    """Read a partition through; its description and the highest producer id in it."""
    logs = sorted(n for n in fs.list_dir(path) if n.endswith(LOG_SUFFIX))
    size_bytes, epoch, highest = 0, 0, -1
    for name in logs:
        base_offset = parse_file_name(name, LOG_SUFFIX)
        if base_offset is None:
            raise DirectoryError(f"{path}/{name}: not the name of a segment")
        with sound_batches(fs, f"{path}/{name}", base_offset) as sound:
            for _, header, _ in sound:
                epoch, highest = max(epoch, header.leader_epoch), max(highest, header.producer_id)
            size = sound.file.size
            if not sound.is_whole and name != logs[-1] and not has_only_zeros(sound):
                raise DirectoryError(f"{path}/{name}: damaged after offset {sound.next_offset}, byte {sound.end} of {size}")
        if not sound.is_whole:
            notes.append(f"{path}/{name}: {size - sound.end} bytes at the end are no whole batch and will be cut")
        size_bytes += size
    for offset in snapshot.offsets(fs, path):
        entries = snapshot.decode(fs.read_file(snapshot.path_of(path, offset)) or b"") or []
        highest = max([highest, *(e.producer_id for e in entries)])
    epochs = LeaderEpochs(fs, path)
    epochs.load()
    return Adopted(path, size_bytes, max(epoch, epochs.latest)), highest


def carry_out(fs: Filesystem, target: str, found: Plan, identity: Identity, now_ms: int, progress: Progress) -> None:
    """Copy the partitions, then tell of them in the metadata: topics are there as a whole, or not at all."""
    fs.make_dir(target)
    identity = read_identity(fs, target) or identity
    state = ClusterState(identity.node_id)
    metadata = Log(fs, f"{target}/{METADATA_DIRECTORY}", METADATA_TOPIC, 0, METADATA_CONFIG)
    open_log(metadata, now_ms, clean=False)
    for header, raw in all_batches(metadata):
        for record in () if header.is_control else records_of(raw, header):
            state.replay(LogRecord(record.key, record.value))
    taken = [name for name in found.topics if name in state.topics]
    if taken:
        raise DirectoryError(f"{target} has a topic {taken[0]} already")
    made: list[str] = []
    try:
        _copy(fs, target, found, made, progress)
        write_identity(fs, target, identity)
        for batch in _records(state, found):
            metadata.append_own(build_batch(((r.key, r.value) for r in batch), now_ms), now_ms)
    except (OSError, KafkaError):
        for directory in made:
            fs.remove_dir(directory)
        raise
    metadata.close()
    # What came from elsewhere is read batch by batch at the next start.
    fs.unlink(f"{target}/{CLEAN_FILE}")


def _copy(fs: Filesystem, target: str, found: Plan, made: list[str], progress: Progress) -> None:
    done, total = 0, found.size_bytes
    for (topic, index), adopted in found.partitions.items():
        directory = f"{target}/{topic}-{index}"
        fs.make_dir(directory)
        made.append(directory)
        for name in fs.list_dir(adopted.path):
            if not name.endswith(_COPIED):
                continue
            for size in copy(fs, f"{adopted.path}/{name}", f"{directory}/{name}"):
                if name.endswith(LOG_SUFFIX):
                    done += size
                    progress(done, total)


def _records(state: ClusterState, found: Plan) -> Iterable[list[LogRecord]]:
    """What the metadata must say besides what it says already."""
    fresh = ClusterState(state.node_id)
    if not state.features:
        fresh.features = dict(DEFAULT_FEATURES)
    fresh.topics = found.topics
    fresh.configs = {(TOPIC_RESOURCE, name): configs for name, configs in found.configs.items() if configs}
    fresh.next_producer_id = max(state.next_producer_id, found.next_producer_id)
    records = fresh.snapshot()
    return [records[at : at + RECORDS_A_BATCH] for at in range(0, len(records), RECORDS_A_BATCH)]
