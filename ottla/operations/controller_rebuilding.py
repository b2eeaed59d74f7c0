"""``ottla cluster rebuild-controller``: creates a controller's directory from the directories of its brokers.

Each broker keeps a copy of the cluster's metadata log. The most advanced copy, by its last leader epoch and then by its end,
becomes the log of the new controller. Its offsets do not change, so that brokers continue from their own copies. One more record is
appended, in a leader epoch above the epochs of all copies, so that a broker with a diverging copy detects the divergence. Without a
copy, topics are rebuilt from the partition directories and their topic ids, and much remains unknown.

Nothing is written to the brokers' directories, and the new directory is created atomically.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.operations.controller_directory import DEFAULT_NODE_ID, append_records, fill_directory
from ottla.operations.kafka_metadata import read_metadata, snapshot_end
from ottla.operations.new_directory import new_directory
from ottla.operations.partition_directories import PartitionDirectories, topics_of
from ottla.protocol.messages import no_op_record
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, crc_is_valid
from ottla.protocol.uuids import uuid_text
from ottla.storage.filesystem import Filesystem
from ottla.storage.following import append_as_follower
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryError, DirectoryIdentity, read_identity
from ottla.storage.log import Log
from ottla.storage.names import name_before_stray
from ottla.storage.segment import LOG_SUFFIX, parse_file_name
from ottla.storage.walk import batches


@dataclass(slots=True, frozen=True)
class Copy:
    """A copy of the metadata log in a broker's directory, up to its first damaged batch."""

    path: str
    last_epoch: int
    end_offset: int
    has_snapshot: bool

    @property
    def position(self) -> tuple[int, int]:
        return self.last_epoch, self.end_offset


@dataclass(slots=True)
class RebuiltController:
    """The controller's new directory.

    ``source`` is the path of the copy that was used. ``unknown`` lists facts that could not be rebuilt, ``notes`` what the operator
    may do.
    """

    cluster_id: str
    node_id: int
    source: str = ""
    end_offset: int = 0
    topics: int = 0
    partitions: int = 0
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rebuild(
    fs: Filesystem, target: str, sources: Sequence[str], random_uuid: bytes, now_ms: int, node_id: int | None = None
) -> RebuiltController:
    """Create the directory ``target``. ``sources`` are directories of stopped brokers, or single copies that were set aside.

    Raises `DirectoryError` before anything is written, and OSError.
    """
    if fs.is_dir(target) is False or fs.list_dir(target):
        raise DirectoryError(f"{target} is not empty; give a new directory, and keep this one until the cluster runs")
    brokers, paths = _brokers_and_copies(fs, sources)
    identities = {directory: _identity(fs, directory) for directory in brokers}
    cluster_ids = {identity.cluster_id for identity in identities.values()}
    if len(cluster_ids) != 1:
        raise DirectoryError(
            f"the directories belong to {len(cluster_ids)} clusters, {', '.join(sorted(cluster_ids))};"
            " give directories of one cluster"
        )
    copies = [copy for path in paths if (copy := _examined(fs, path)) is not None]
    chosen = max(copies, key=lambda copy: copy.position, default=None)
    directories = PartitionDirectories(fs, {identity.node_id: path for path, identity in identities.items()})
    rebuilt = RebuiltController(cluster_ids.pop(), node_id or DEFAULT_NODE_ID)
    if chosen is None:
        state = topics_of(directories, {i.node_id: i.directory_uuid for i in identities.values()}, rebuilt.unknown)
    else:
        state = read_metadata(fs, chosen.path.rpartition("/")[0], rebuilt.notes, chosen.path).state
        rebuilt.source, rebuilt.end_offset = chosen.path, chosen.end_offset
        rebuilt.node_id = node_id or max(state.registrations.controllers, default=DEFAULT_NODE_ID)
        rebuilt.unknown.append(
            f"records of the lost controller at offset {chosen.end_offset} and later, which none of these brokers has"
        )
        rebuilt.notes += _other_copies(fs, brokers, paths, chosen)
    rebuilt.topics = len(state.topics)
    rebuilt.partitions = sum(topic.partition_count for topic in state.topics.values())
    rebuilt.notes += directories.notes(state)
    # The new epoch is above the epochs of all copies: copies that were not chosen may have other records at the same offsets.
    epoch = max((copy.last_epoch for directory in brokers for copy in _all_copies(fs, directory)), default=0) + 1
    identity = DirectoryIdentity(rebuilt.cluster_id, rebuilt.node_id, uuid_text(random_uuid))
    with new_directory(fs, target) as growing:
        fill_directory(fs, growing, identity, lambda log: _fill(fs, log, chosen, state, epoch, now_ms))
    return rebuilt


def broker_of(source: str) -> str:
    """Return the broker's directory: ``source`` itself, or the directory around ``source`` if it is a copy that was set aside."""
    parent, _, name = source.rstrip("/").rpartition("/")
    return (parent or ".") if _is_set_aside(name) else source.rstrip("/")


def _is_set_aside(name: str) -> bool:
    return name_before_stray(name) == METADATA_DIRECTORY


def _brokers_and_copies(fs: Filesystem, sources: Sequence[str]) -> tuple[list[str], list[str]]:
    brokers: dict[str, None] = {}
    copies: list[str] = []
    for source in (source.rstrip("/") for source in sources):
        broker = broker_of(source)
        brokers[broker] = None
        copies.append(f"{source}/{METADATA_DIRECTORY}" if broker == source else source)
    named_aside = [path for path in copies if _is_set_aside(path.rpartition("/")[2])]
    # A copy that was set aside is used if the operator names it, even if another copy has a newer leader epoch.
    return list(brokers), named_aside or copies


def _identity(fs: Filesystem, directory: str) -> DirectoryIdentity:
    identity = read_identity(fs, directory)
    if identity is None:
        raise DirectoryError(f"{directory} is not the directory of a broker: it has no meta.properties")
    return identity


def _stored(fs: Filesystem, path: str) -> Iterator[tuple[BatchHeader, Buffer]]:
    """Yield the batches of a copy before the first batch that is damaged or does not follow the previous batch."""
    expected: int | None = None
    for name in sorted(n for n in fs.list_dir(path) if parse_file_name(n, LOG_SUFFIX) is not None):
        with closing(fs.open(f"{path}/{name}")) as file:
            for _, header, raw in batches(file):
                if not crc_is_valid(raw, header) or (expected is not None and header.base_offset != expected):
                    return
                expected = header.next_offset
                yield header, raw


def _examined(fs: Filesystem, path: str) -> Copy | None:
    below = snapshot_end(fs, path)
    end_offset, last_epoch = (0, 0) if below is None else below
    for header, _ in _stored(fs, path):
        if header.next_offset > end_offset:
            end_offset, last_epoch = header.next_offset, max(last_epoch, header.leader_epoch)
    return Copy(path, last_epoch, end_offset, below is not None) if end_offset else None


def _all_copies(fs: Filesystem, broker: str) -> Iterator[Copy]:
    for name in fs.list_dir(broker):
        if name == METADATA_DIRECTORY or _is_set_aside(name):
            copy = _examined(fs, f"{broker}/{name}")
            if copy is not None:
                yield copy


def _other_copies(fs: Filesystem, brokers: Collection[str], paths: Sequence[str], chosen: Copy) -> Iterator[str]:
    """Describe each copy that was set aside and has records that the chosen copy lacks."""
    have: set[tuple[int, int, int]] = set()
    for aside in (copy for broker in brokers for copy in _all_copies(fs, broker)):
        if aside.path in paths or aside.path.endswith(f"/{METADATA_DIRECTORY}"):
            continue
        have = have or {(header.base_offset, header.leader_epoch, header.crc) for header, _ in _stored(fs, chosen.path)}
        stored = (header for header, _ in _stored(fs, aside.path))
        lacks = next((h.base_offset for h in stored if (h.base_offset, h.leader_epoch, h.crc) not in have), None)
        if lacks is not None:
            yield (
                f"{aside.path}, an earlier copy, has other records from offset {lacks} to {aside.end_offset - 1};"
                f" to use it instead: --from {aside.path}"
            )


def _fill(fs: Filesystem, log: Log, chosen: Copy | None, state: ClusterState, epoch: int, now_ms: int) -> None:
    if chosen is not None and not chosen.has_snapshot:
        for header, raw in _stored(fs, chosen.path):
            append_as_follower(log, raw, header.leader_epoch, now_ms)
        records = [metadata_record(no_op_record, no_op_record.NoOpRecord())]
    else:
        # A controller of ottla begins its log at offset 0. Brokers whose copies begin at another offset fetch the whole log.
        records = state.snapshot()
    append_records(log, records, epoch, now_ms)
