"""Adopts topics from an Apache Kafka data directory: a copy of production, a single partition, or files without metadata.

It also recovers directories that a broker has set aside, as a topic of the same or another name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE, ClusterState, as_allotted
from ottla.coordinator.metadata.partition_registration import sole_replica
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.coordinator.metadata.topics import MAX_PARTITIONS_PER_TOPIC, Topic
from ottla.coordinator.result import LogRecord
from ottla.operations.copying import COPIED, Progress, copy
from ottla.operations.kafka_metadata import StoredMetadata, read_metadata
from ottla.operations.log_ends import KnownEnds, read_known_ends
from ottla.operations.metadata_log import DEFAULT_FEATURES, METADATA_CONFIG, RECORDS_PER_BATCH, replay_batch
from ottla.operations.replicas import check_is_alone
from ottla.operations.retained_metadata import NAMED_IN_A_NOTE, KeptEntries, keep_own, kept_by, notes_of_source
from ottla.operations.segments import sound_batches
from ottla.operations.stray_sources import is_stray, partition_of_source, strays_of_topic
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import build_batch
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage import snapshot
from ottla.storage.checkpoints import (
    RECOVERY_POINTS,
    LeaderEpochs,
    parse_offsets,
    read_partition_metadata,
    write_offsets,
    write_partition_metadata,
)
from ottla.storage.filesystem import Filesystem, sync_names
from ottla.storage.identity import (
    METADATA_DIRECTORY,
    DirectoryError,
    DirectoryIdentity,
    check_not_kafkas,
    read_identity,
    write_identity,
)
from ottla.storage.last_stop import FIRST_DIRTY, LOG_STARTS, remove_clean_file
from ottla.storage.log import Log
from ottla.storage.names import DELETE_SUFFIX, DELETED_NAME, parse_directory_name
from ottla.storage.reading import all_batches
from ottla.storage.recovery import open_log
from ottla.storage.segment import LOG_SUFFIX, parse_file_name


@dataclass(slots=True)
class PartitionDirectory:
    """A partition to adopt: its directory, the size of its logs in bytes, and the newest leader epoch in them."""

    path: str
    size_bytes: int
    leader_epoch: int


@dataclass(slots=True)
class AdoptedTopic:
    """A topic to adopt. ``leader_epochs`` has the newest epoch of each partition in the metadata and the log."""

    name: str
    topic_id: bytes
    leader_epochs: list[int] = field(default_factory=list)

    @property
    def partition_count(self) -> int:
        return len(self.leader_epochs)


@dataclass(slots=True)
class AdoptionPlan:
    """The data to adopt from Apache Kafka. ``partitions`` are by topic and number.

    ``kept`` has the other metadata, such as ACLs, which is adopted only together with all topics.
    """

    topics: dict[str, AdoptedTopic] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionDirectory] = field(default_factory=dict)
    kept: KeptEntries = field(default_factory=KeptEntries)
    next_producer_id: int = 0
    is_of_strays: bool = False
    """Whether stray directories are adopted. Their topic may already be in the target, perhaps under another name."""
    notes: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(p.size_bytes for p in self.partitions.values())


def plan_adoption(
    fs: Filesystem, source: str, wanted: Collection[str], random_uuid: Iterable[bytes], new_name: str | None = None
) -> AdoptionPlan:
    """Read a Kafka data directory, a single partition's directory, or all stray directories of the same topic.

    ``wanted`` has topic names; if empty, all topics are adopted. With ``new_name`` the topic of a partition's directory gets that
    name, and a new topic id. Nothing is written. Raises OSError, `DirectoryError` with file and offset, and
    INVALID_TOPIC_EXCEPTION for a ``new_name`` that no topic may have.
    """
    plan = AdoptionPlan(is_of_strays=is_stray(source))
    if fs.is_dir(source) is None:
        raise DirectoryError(
            f"{source} does not exist; give the directory of a stopped broker, a copy of it, or the directory of a partition"
        )
    directories = _directories(fs, source, plan.notes, new_name)
    stored = read_metadata(fs, source, plan.notes)
    metadata = stored.state
    plan.next_producer_id = metadata.next_producer_id
    if not wanted:
        plan.kept = kept_by(metadata)
    plan.notes += notes_of_source(metadata, is_taken=not wanted)
    # Recovery points are ignored: in a copied directory, their checkpoint may be newer than the logs, which were copied before.
    ends = KnownEnds(read_known_ends(fs, source).was_clean)
    for name in wanted:
        if not any(topic == name for topic, _ in directories) and (stored.is_kafkas or name not in metadata.topics):
            raise DirectoryError(f"{source} has no partition of {name}")
    ids = iter(random_uuid)
    for (topic, index), path in sorted(directories.items()):
        if wanted and topic not in wanted:
            continue
        if index >= MAX_PARTITIONS_PER_TOPIC:
            raise DirectoryError(
                f"{path} is the directory of partition {index}, but a topic has at most {MAX_PARTITIONS_PER_TOPIC} partitions;"
                " rename or remove the directory"
            )
        adopted, highest = _partition(fs, path, (topic, index), ends, plan.notes)
        plan.partitions[topic, index] = adopted
        plan.next_producer_id = max(plan.next_producer_id, highest + 1)
        known = plan.topics.get(topic)
        if known is None:
            described = metadata.topics.get(topic)
            topic_id = read_partition_metadata(fs, path) or (described.topic_id if described is not None else NO_UUID)
            is_known = topic_id != NO_UUID and new_name is None
            known = plan.topics[topic] = AdoptedTopic(topic, topic_id if is_known else next(ids))
            known.leader_epochs = _leader_epochs(described) if described is not None else []
            plan.configs[topic] = dict(metadata.config_of(TOPIC_RESOURCE, topic))
        epochs = known.leader_epochs
        epochs += [0] * (index + 1 - len(epochs))
        epochs[index] = max(epochs[index], adopted.leader_epoch)
    _topics_without_directories(fs, source, stored, wanted, plan)
    if not plan.topics:
        raise DirectoryError("; ".join([f"{source} has no partition directories", *plan.notes]))
    return plan


def _leader_epochs(topic: Topic) -> list[int]:
    return [partition.leader_epoch for partition in topic.partitions]


def _directories(fs: Filesystem, source: str, notes: list[str], new_name: str | None) -> dict[TopicPartition, str]:
    """Return each partition's directory.

    ``source`` may be one partition's directory. Links are not followed, only listed in ``notes``.
    """
    own = partition_of_source(source)
    names = fs.list_dir(source)
    if own is not None and any(n.endswith(LOG_SUFFIX) for n in names):
        found = strays_of_topic(fs, source) if is_stray(source) else {own: source}
        if is_stray(source):
            notes.append(f"the stray directories stay; remove them once the topic has what you want: {', '.join(found.values())}")
        if new_name is None:
            return found
        check_topic_name(new_name)
        return {(new_name, index): path for (_, index), path in found.items()}
    if new_name is not None:
        raise DirectoryError(f"{source} is not the directory of one partition, so its topics keep their names; leave out --as")
    directories = {}
    for name in names:
        partition, path = parse_directory_name(name), f"{source}/{name}"
        if partition is None or partition[0] == METADATA_TOPIC:
            continue
        if not fs.is_dir(path):
            notes.append(
                f"{path} is not a directory, but a link or a file, and is not imported; adopt the directory that it leads to by"
                " its own path"
            )
        elif fs.list_dir(path):
            directories[partition] = path
    return directories


def _topics_without_directories(
    fs: Filesystem, source: str, metadata: StoredMetadata, wanted: Collection[str], plan: AdoptionPlan
) -> None:
    """Handle topics without any partition directory.

    In ottla a partition has no directory before its first append, so such topics are empty and are created. Apache Kafka creates a
    directory for each of its partitions, so such topics are on other brokers and are not adopted. Topics that have no replica on
    this broker, according to its copy of the cluster's metadata, are not adopted either.
    """
    identity = read_identity(fs, source)
    node_id = -1 if identity is None else identity.node_id
    written = {topic for (topic, _), point in read_known_ends(fs, source).recovery_points.items() if point}
    left = []
    for name, topic in metadata.state.topics.items():
        if name in plan.topics or (wanted and name not in wanted):
            continue
        is_elsewhere = not metadata.state.is_alone and not any(node_id in p.replicas for p in topic.partitions)
        if metadata.is_kafkas or name in written or is_elsewhere:
            left.append(name)
        else:
            plan.topics[name] = AdoptedTopic(name, topic.topic_id, _leader_epochs(topic))
            plan.configs[name] = dict(metadata.state.config_of(TOPIC_RESOURCE, name))
    if left:
        shown = ", ".join(sorted(left)[:NAMED_IN_A_NOTE]) + (", ..." if len(left) > NAMED_IN_A_NOTE else "")
        plan.notes.append(f"{len(left)} topics of the cluster have no partition here and are not imported: {shown}")


def _partition(
    fs: Filesystem, path: str, where: TopicPartition, ends: KnownEnds, notes: list[str]
) -> tuple[PartitionDirectory, int]:
    """Read all batches of a partition. Returns the partition and its highest producer id. Adds a note on bytes that a starting
    broker will truncate."""
    logs = sorted(n for n in fs.list_dir(path) if n.endswith(LOG_SUFFIX))
    size_bytes, epoch, highest, next_offset = 0, 0, -1, 0
    for name in logs:
        base_offset = parse_file_name(name, LOG_SUFFIX)
        if base_offset is None:
            raise DirectoryError(f"{path}/{name}: this is not the name of a segment")
        with sound_batches(fs, f"{path}/{name}", max(base_offset, next_offset)) as sound:
            for _, header, _ in sound:
                epoch, highest = max(epoch, header.leader_epoch), max(highest, as_allotted(header.producer_id))
            size = sound.file.size
            if name != logs[-1]:
                # A starting broker would truncate the log at damage in an older segment, and remove all later segments.
                ends.check_older(sound)
            elif torn_bytes := ends.check_newest(where, sound):
                notes.append(f"{path}/{name}: {torn_bytes} bytes at the end are an incomplete batch and will be truncated")
        size_bytes, next_offset = size_bytes + size, sound.next_offset
    for offset in snapshot.offsets(fs, path):
        entries = snapshot.read(fs, path, offset) or []
        highest = max([highest, *(as_allotted(e.producer_id) for e in entries)])
    epochs = LeaderEpochs(fs, path)
    epochs.load()
    return PartitionDirectory(path, size_bytes, max(epoch, epochs.latest)), highest


def carry_out(
    fs: Filesystem, target: str, plan: AdoptionPlan, identity: DirectoryIdentity, now_ms: int, progress: Progress
) -> None:
    """Copy the partitions, then add them to the metadata, each topic atomically.

    Raises `DirectoryError` before anything is written. After any other failure the target serves the same topics as before: until
    all partitions are copied, their directories have temporary names, and a starting broker removes them.
    """
    _check_target(fs, target, plan)
    identity = read_identity(fs, target) or identity
    state = ClusterState(identity.node_id)
    metadata = Log(fs, f"{target}/{METADATA_DIRECTORY}", METADATA_TOPIC, 0, METADATA_CONFIG)
    # Remove the clean-shutdown file, so that the next start checks every adopted batch, also those of an interrupted adoption.
    remove_clean_file(fs, target)
    recovery_point = read_known_ends(fs, target).recovery_points.get((METADATA_TOPIC, 0), 0)
    open_log(metadata, now_ms, clean=False, recovery_point=recovery_point)
    try:
        for header, raw in all_batches(metadata):
            replay_batch(state, header, raw, is_strict=True)
    except DecodeError as error:
        raise DirectoryError(f"{metadata.directory}: {error}") from error
    sizes_bytes = {segment: segment.size_bytes for segment in metadata.segments}
    made: list[str] = []
    try:
        _forget(fs, target, plan.partitions)
        _copy(fs, target, plan, made, progress)
        write_identity(fs, target, identity)
        for batch in _records(state, plan):
            metadata.append_own(build_batch(((r.key, r.value) for r in batch), now_ms), now_ms)
        metadata.close()
    except BaseException:
        # Remove the copied directories, also after Ctrl-C.
        for segment in metadata.segments:
            segment.log.take_back(sizes_bytes.get(segment, 0))
        metadata.abandon()
        for directory in made:
            with suppress(OSError):
                fs.remove_dir(directory)
        raise


def _check_target(fs: Filesystem, target: str, plan: AdoptionPlan) -> None:
    """Raise `DirectoryError` if something in the target prevents the adoption.

    Entries of ``plan.kept`` that the target has as well are removed from the plan, and reported in its notes.
    """
    check_not_kafkas(fs, target)
    own = read_metadata(fs, target, []).state
    check_is_alone(own, target)
    taken = [name for name in plan.topics if name in own.topics]
    if taken:
        # The topic in the target is never overwritten, because it may be needed as well as the adopted topic of the same name.
        raise DirectoryError(
            f"{target} already has a topic {taken[0]}; delete this topic, adopt other topics with --topic, or adopt a"
            " partition's directory under another name with --as"
        )
    for topic in plan.topics.values():
        same = own.topics_by_id.get(topic.topic_id)
        if plan.is_of_strays and same is not None:
            raise DirectoryError(
                f"{target} already has the topic id of {topic.name}, as {same.name}; give the copy a name with --as"
            )
    for name, index in plan.partitions:
        directory = f"{target}/{name}-{index}"
        if fs.is_dir(directory) is not None:
            raise DirectoryError(f"{directory} already exists and belongs to no topic of {target}; move it away")
    _, free_bytes = fs.space(target)
    if free_bytes < plan.size_bytes:
        raise DirectoryError(
            f"{target} has room for {free_bytes:,} of {plan.size_bytes:,} bytes; free some space, or give a directory on another"
            " disk"
        )
    plan.notes += keep_own(plan.kept, own, target)


def _forget(fs: Filesystem, target: str, names: Collection[TopicPartition]) -> None:
    """Remove leftovers of earlier topics with the same names from the target's checkpoints.

    The adopted logs get recovery point 0: their durable end is unknown, and another broker may have compacted them. If the target's
    recovery points cannot be read, all of its logs get 0: after this write no starting broker can notice the loss.
    """
    points = parse_offsets(fs.read_file(f"{target}/{RECOVERY_POINTS}"))
    if points is None:
        own = (parse_directory_name(name) for name in fs.list_dir(target))
        points = dict.fromkeys((where for where in own if where is not None), 0)
    write_offsets(fs, f"{target}/{RECOVERY_POINTS}", points | dict.fromkeys(names, 0))
    for name in (LOG_STARTS, FIRST_DIRTY):
        # A checkpoint that cannot be read is left unchanged: the next start reports it and ignores its content.
        offsets = parse_offsets(fs.read_file(f"{target}/{name}"))
        if offsets is not None and any(where in offsets for where in names):
            write_offsets(fs, f"{target}/{name}", {where: offset for where, offset in offsets.items() if where not in names})


def _copy(fs: Filesystem, target: str, plan: AdoptionPlan, made: list[str], progress: Progress) -> None:
    """Copy the partitions to directories with temporary names, which a starting broker removes, then rename these directories.

    ``made`` collects the paths.
    """
    for name in fs.list_dir(target):
        if DELETED_NAME.fullmatch(name):
            # This directory remains from an adoption that was killed, or from a broker that was deleting a topic.
            fs.remove_dir(f"{target}/{name}")
    done, total = 0, plan.size_bytes
    growing: list[tuple[str, str]] = []
    for (topic, index), adopted in plan.partitions.items():
        directory = f"{target}/{topic[:200]}-{index}.{plan.topics[topic].topic_id.hex()}{DELETE_SUFFIX}"
        growing.append((directory, f"{target}/{topic}-{index}"))
        made.append(directory)
        fs.make_dir(directory)
        for name in fs.list_dir(adopted.path):
            if not name.endswith(COPIED):
                continue
            for piece in copy(fs, f"{adopted.path}/{name}", f"{directory}/{name}"):
                if name.endswith(LOG_SUFFIX):
                    done += len(piece)
                    progress(done, total)
        if read_partition_metadata(fs, directory) not in (None, plan.topics[topic].topic_id):
            write_partition_metadata(fs, directory, plan.topics[topic].topic_id)
        sync_names(fs, directory)
    for directory, final in growing:
        made.append(final)
        fs.rename(directory, final)
    sync_names(fs, target)


def _records(state: ClusterState, plan: AdoptionPlan) -> Iterable[list[LogRecord]]:
    """Return the records that the target's metadata log still lacks, in batches."""
    fresh = ClusterState(state.node_id)
    if not state.features:
        fresh.features = dict(DEFAULT_FEATURES)
    for topic in plan.topics.values():
        # Replicas on other brokers are not adopted, so this node leads each partition.
        partitions = [sole_replica(state.node_id, epoch) for epoch in topic.leader_epochs]
        fresh.topics[topic.name] = Topic(topic.name, topic.topic_id, partitions)
    fresh.configs = {(TOPIC_RESOURCE, name): configs for name, configs in plan.configs.items() if configs}
    fresh.configs |= plan.kept.configs
    fresh.client_quotas, fresh.credentials, fresh.acls = plan.kept.client_quotas, plan.kept.credentials, plan.kept.acls
    fresh.tokens.by_id.update(plan.kept.tokens.by_id)
    fresh.next_producer_id = max(state.next_producer_id, plan.next_producer_id)
    records = fresh.snapshot()
    return [records[at : at + RECORDS_PER_BATCH] for at in range(0, len(records), RECORDS_PER_BATCH)]
