"""Converts a data directory for Apache Kafka: partitions unchanged, and the metadata as a KRaft bootstrap snapshot.

Apache Kafka adopts the partition directories that it finds if its metadata has their topics with the same ids. A new KRaft
directory reads its first records from ``bootstrap.checkpoint``: feature levels, topics with their partitions, configs, and the next
producer id (org.apache.kafka.metadata.bootstrap.BootstrapDirectory).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.result import LogRecord
from ottla.operations.copying import COPIED, Progress, copy
from ottla.operations.kafka_metadata import CONTROL_KEY, SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from ottla.operations.log_ends import KnownEnds, read_known_ends
from ottla.operations.metadata_log import RECORDS_PER_BATCH, levels_with
from ottla.operations.new_directory import new_directory
from ottla.operations.own_metadata import read_own_metadata
from ottla.operations.replicas import check_is_alone
from ottla.operations.segments import OnRead, read_through, sound_batches
from ottla.protocol.records import CONTROL_BIT, assign, build_batch, with_attributes
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Filesystem, sync_file, sync_names
from ottla.storage.growth import check_not_growing
from ottla.storage.identity import (
    BOOTSTRAP_FILE,
    METADATA_DIRECTORY,
    DirectoryError,
    DirectoryIdentity,
    check_not_kafkas,
    read_identity,
    write_identity,
)
from ottla.storage.names import parse_directory_name
from ottla.storage.replacement import check_not_replacing
from ottla.storage.segment import LOG_SUFFIX, parse_file_name

KRAFT_VERSION = "kraft.version"
"""This feature is not in a bootstrap snapshot, because control records contain its level."""


@dataclass(slots=True)
class GraduationPlan:
    """The data for Apache Kafka. ``directories`` are names in the source, with their files and the files' sizes in bytes."""

    identity: DirectoryIdentity
    state: ClusterState
    records: list[LogRecord]
    ends: KnownEnds
    directories: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(size for files in self.directories.values() for _, size in files)

    @property
    def partition_count(self) -> int:
        return sum(t.partition_count for t in self.state.topics.values())


def plan_graduation(fs: Filesystem, source: str, features: Mapping[str, int]) -> GraduationPlan:
    """Read a data directory without writing to it. ``features`` are feature levels that replace the directory's.

    Raises OSError, or `DirectoryError` with file and offset.
    """
    check_not_replacing(fs, source)
    check_not_growing(fs, source)
    identity = read_identity(fs, source)
    if identity is None:
        raise DirectoryError(f"{source} is not a data directory: it has no meta.properties")
    check_not_kafkas(fs, source)
    ends = read_known_ends(fs, source)
    state, torn_bytes = read_own_metadata(fs, source, identity.node_id, ends)
    check_is_alone(state, source)
    state.features.update(levels_with(state.features, features))
    records = state.snapshot(without_features={KRAFT_VERSION})
    plan = GraduationPlan(identity, state, records, ends)
    if torn_bytes:
        plan.notes.append(f"{METADATA_DIRECTORY}: the last {torn_bytes} bytes are an incomplete batch and are not copied")
    for name in fs.list_dir(source):
        parsed = parse_directory_name(name)
        if parsed is None or name == METADATA_DIRECTORY or not fs.is_dir(f"{source}/{name}"):
            continue
        if not _belongs(state, parsed):
            plan.notes.append(f"{name} belongs to no topic and is not copied")
            continue
        files = [n for n in fs.list_dir(f"{source}/{name}") if n.endswith(COPIED)]
        plan.directories[name] = [(n, fs.open(f"{source}/{name}/{n}").size) for n in files]
    for where, point in ends.recovery_points.items():
        name = f"{where[0]}-{where[1]}"
        if point and _belongs(state, where) and not any(n.endswith(LOG_SUFFIX) for n, _ in plan.directories.get(name, ())):
            raise DirectoryError(f"{source}/{name}: the log is missing; {ends.expected(where)}")
    return plan


def _belongs(state: ClusterState, where: TopicPartition) -> bool:
    topic = state.topics.get(where[0])
    return topic is not None and where[1] < topic.partition_count


def check(fs: Filesystem, source: str, plan: GraduationPlan, on_read: OnRead) -> None:
    """Read every log. Raises `DirectoryError` with file and offset.

    After a crash the newest segment may end with an incomplete batch, which Apache Kafka truncates when it starts.
    """
    for name, files in plan.directories.items():
        where = parse_directory_name(name)
        assert where is not None
        logs = sorted(n for n, _ in files if n.endswith(LOG_SUFFIX))
        next_offset = 0
        for log in logs:
            path = f"{source}/{name}/{log}"
            base_offset = parse_file_name(log, LOG_SUFFIX)
            if base_offset is None:
                raise DirectoryError(
                    f"{path}: this is not the name of a segment, and Apache Kafka does not start with such a file; move it away"
                )
            with sound_batches(fs, path, max(base_offset, next_offset)) as sound:
                for _ in read_through(sound, on_read):
                    pass
                if log != logs[-1]:
                    plan.ends.check_older(sound)
                elif torn_bytes := plan.ends.check_newest(where, sound):
                    plan.notes.append(f"{name}/{log}: the last {torn_bytes} bytes are an incomplete batch and will be truncated")
            next_offset = sound.next_offset


def carry_out(fs: Filesystem, source: str, target: str, plan: GraduationPlan, progress: Progress) -> None:
    """Copy the partitions and write the metadata. The target is created atomically. Raises `DirectoryError` or OSError."""
    if fs.list_dir(target):
        raise DirectoryError(f"{target} is not empty; give a directory that does not exist")
    with new_directory(fs, target) as growing:
        _copy(fs, source, growing, plan, progress)
        write_identity(fs, growing, plan.identity, is_synced=True)
        _write_bootstrap(fs, growing, plan)


def _copy(fs: Filesystem, source: str, growing: str, plan: GraduationPlan, progress: Progress) -> None:
    total, done = plan.size_bytes, 0
    fs.make_dir(growing)
    for name, files in plan.directories.items():
        fs.make_dir(f"{growing}/{name}")
        for file, _ in files:
            for piece in copy(fs, f"{source}/{name}/{file}", f"{growing}/{name}/{file}"):
                done += len(piece)
                progress(done, total)
        sync_names(fs, f"{growing}/{name}")


def _write_bootstrap(fs: Filesystem, directory: str, plan: GraduationPlan) -> None:
    path = f"{directory}/{BOOTSTRAP_FILE}"
    fs.write_file(path, bootstrap(plan.records))
    sync_file(fs, path)


def hand_over(fs: Filesystem, directory: str, plan: GraduationPlan) -> str:
    """Convert the directory itself for Apache Kafka. Returns the new path of ottla's own metadata.

    Moving the metadata completes the conversion. If an earlier step fails, the directory stays as it was. Raises `DirectoryError`
    if the metadata cannot be moved, because Apache Kafka does not start with foreign metadata in the directory.
    """
    metadata, aside, path = f"{directory}/{METADATA_DIRECTORY}", f"{directory}.ottla-metadata", f"{directory}/{BOOTSTRAP_FILE}"
    if fs.is_dir(aside) is not None:
        raise DirectoryError(f"{aside} already exists from an earlier ottla graduate --in-place; move it away")
    before = fs.read_file(path)
    try:
        _write_bootstrap(fs, directory, plan)
        try:
            fs.rename(metadata, aside)
        except OSError as error:
            reason = f"({error.strerror}); nothing was changed; correct this or graduate with --to"
            raise DirectoryError(f"{metadata} cannot be moved to {aside} {reason}") from error
        sync_names(fs, directory)
    except BaseException:
        # Restore bootstrap.checkpoint, also after Ctrl-C, unless the metadata has been moved.
        with suppress(OSError):
            if fs.is_dir(metadata):
                fs.unlink(path) if before is None else fs.write_file(path, before)
        raise
    return aside


def bootstrap(records: list[LogRecord]) -> bytes:
    """Encode a KRaft snapshot: a header, the records and a footer."""
    parts = [_control(SNAPSHOT_HEADER, bytes(11), 0)]
    at = 1
    for start in range(0, len(records), RECORDS_PER_BATCH):
        chunk = records[start : start + RECORDS_PER_BATCH]
        batch = build_batch(((r.key, r.value) for r in chunk), 0)
        assign(batch, at, 0)
        parts.append(bytes(batch))
        at += len(chunk)
    parts.append(_control(SNAPSHOT_FOOTER, bytes(3), at))
    return b"".join(parts)


def _control(kind: int, value: bytes, offset: int) -> bytes:
    batch = with_attributes(build_batch([(CONTROL_KEY.pack(0, kind), value)], 0), CONTROL_BIT)
    assign(batch, offset, 0)
    return bytes(batch)
