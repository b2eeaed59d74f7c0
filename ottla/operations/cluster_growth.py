"""``ottla cluster grow``: converts the directory of one broker to the directory of a cluster, in which broker 1 has the data.

The new nodes' directories are built in a subdirectory. Then renames move the broker's data into broker 1's directory, and the
directories of all nodes into the data directory. Nothing is copied, and the data directory, which may be a mount point, is not
renamed. Progress is stored on disk (`storage.growth`), so that after a crash either the broker's directory is as before, or the
command continues.

The controller gets a new metadata log with the topics from `operations.grown_metadata`, which broker 1 fetches like any broker. The
clean-shutdown file of broker 1 has no broker epoch, so the controller assumes that broker 1 has lost nothing. This is true even
after a crash, because there was no other replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from ottla.coordinator.metadata.cluster import PRODUCER_ID_BLOCK, TOPIC_RESOURCE, ClusterState, as_allotted
from ottla.coordinator.metadata.server_config import MIN_INSYNC_REPLICAS
from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import from_record
from ottla.operations.controller_directory import DEFAULT_NODE_ID, append_records, fill_directory
from ottla.operations.grown_metadata import BROKER_ID, grown_records
from ottla.operations.kafka_metadata import read_metadata
from ottla.operations.log_ends import read_known_ends
from ottla.operations.own_metadata import read_own_metadata
from ottla.operations.replicas import check_is_alone
from ottla.operations.segments import OnRead, read_through, sound_batches
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.uuids import uuid_text
from ottla.storage import snapshot
from ottla.storage.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    LeaderEpochs,
    parse_offsets,
    read_partition_metadata,
    write_offsets,
)
from ottla.storage.filesystem import Filesystem, sync_file, sync_names
from ottla.storage.growth import GATHERING, GROWTH_DIRECTORY, PARTIAL, PLACING, is_growing
from ottla.storage.identity import (
    CONTROLLER_DIRECTORY,
    META_FILE,
    METADATA_DIRECTORY,
    DirectoryError,
    DirectoryIdentity,
    check_not_kafkas,
    read_identity,
    write_identity,
)
from ottla.storage.last_stop import ABORTED, CLEAN_FILE, FIRST_DIRTY, LOG_STARTS, UNKNOWN_EPOCH, clean_file
from ottla.storage.names import parse_directory_name
from ottla.storage.reading import records_of
from ottla.storage.replacement import check_not_replacing, is_broker_data, move_names
from ottla.storage.segment import LOG_SUFFIX, parse_file_name

CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, FIRST_DIRTY, ABORTED)
"""Checkpoints that may have an entry for the metadata log. Broker 1 gets them without that entry."""
REPLACED = {METADATA_DIRECTORY, META_FILE, CLEAN_FILE, *CHECKPOINTS}
"""Files and directories of the broker that are not moved to broker 1's directory."""
REPLACED_DIRECTORY = "replaced"
"""Directory to which the files `REPLACED` are moved until the growth is complete."""
FIRST_EPOCH = 1


@dataclass(slots=True)
class GrownCluster:
    """The cluster that a directory now contains. ``was_interrupted``: an earlier call had begun the growth."""

    cluster_id: str
    brokers: int
    topics: int
    partitions: int
    replication_factor: int
    was_interrupted: bool
    notes: list[str] = field(default_factory=list)


def grow(
    fs: Filesystem,
    directory: str,
    broker_count: int,
    replication_factor: int,
    new_uuid: Callable[[], bytes],
    now_ms: int,
    on_read: OnRead,
) -> GrownCluster:
    """Grow a directory, or complete a growth that was interrupted. The caller holds the directory's lock.

    Raises `DirectoryError` and OSError. Logs are read, and ``on_read`` is called, only after a crash of the broker.
    """
    has_controller = fs.read_file(f"{directory}/{CONTROLLER_DIRECTORY}/{META_FILE}") is not None
    was_interrupted = is_growing(fs, directory) or (has_controller and fs.is_dir(f"{directory}/{GROWTH_DIRECTORY}") is True)
    if not was_interrupted:
        if has_controller:
            raise DirectoryError(
                f"{directory} has the data of a cluster; ottla serve --data-dir {directory} --brokers {broker_count} starts it"
                " and creates missing brokers"
            )
        _build(fs, directory, broker_count, replication_factor, new_uuid, now_ms, on_read)
    _complete(fs, directory)
    return _described(fs, directory, was_interrupted=was_interrupted)


# checks before the growth


def _check(fs: Filesystem, directory: str, broker_count: int, replication_factor: int) -> DirectoryIdentity:
    """Return the identity of the broker's directory. Raises `DirectoryError` if the directory cannot grow."""
    check_not_replacing(fs, directory)
    identity = read_identity(fs, directory)
    if identity is None:
        raise DirectoryError(
            f"{directory} has no data of a broker;"
            f" ottla serve --data-dir {directory} --brokers {broker_count} creates a cluster there"
        )
    check_not_kafkas(fs, directory)
    if fs.is_dir(f"{directory}/{CONTROLLER_DIRECTORY}") is not None:
        raise DirectoryError(f"{directory}/{CONTROLLER_DIRECTORY} exists, but the controller needs this path; move it away")
    if replication_factor > broker_count:
        raise DirectoryError(
            f"{broker_count} brokers cannot have {replication_factor} replicas of a partition; give more brokers, or fewer replicas"
        )
    needed, (_, free) = data_bytes(fs, directory) * (replication_factor - 1), fs.space(directory)
    if needed > free:
        raise DirectoryError(
            f"{directory} has room for {free:,} bytes, and the new replicas need {needed:,}; free space, or give fewer replicas"
        )
    return identity


def _state(fs: Filesystem, directory: str, identity: DirectoryIdentity) -> ClusterState:
    """Return the broker's metadata. Raises `DirectoryError` if the metadata is damaged or that of a cluster."""
    state, _ = read_own_metadata(fs, directory, identity.node_id, read_known_ends(fs, directory))
    check_is_alone(state, directory)
    # A metadata log with a topic id is a copy that a broker has fetched from a controller, even if no broker is registered in it.
    is_copy = read_partition_metadata(fs, f"{directory}/{METADATA_DIRECTORY}") is not None
    if is_copy or state.registrations.controllers:
        raise DirectoryError(f"{directory} belongs to a node of a cluster; give the directory of a single broker")
    return state


# writing the new directories


def _build(
    fs: Filesystem,
    directory: str,
    broker_count: int,
    replication_factor: int,
    new_uuid: Callable[[], bytes],
    now_ms: int,
    on_read: OnRead,
) -> None:
    """Write all new files. Until the last step, a rename, the data directory remains the directory of one broker."""
    identity = _check(fs, directory, broker_count, replication_factor)
    state = _state(fs, directory, identity)
    next_id = 0
    if fs.read_file(f"{directory}/{CLEAN_FILE}") is None:
        # A power cut may have removed the end of the metadata log, and with it the record of a block of producer ids that is in
        # use.
        next_id = (_highest_producer_id(fs, directory, on_read) // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK
    first = identity.directory_uuid if any(identity.directory_uuid) else new_uuid()
    directory_ids = [first, *(new_uuid() for _ in range(broker_count - 1))]
    records = grown_records(state, directory_ids, replication_factor, dict(_epochs(fs, directory)), next_id)
    base = f"{directory}/{GROWTH_DIRECTORY}"
    if fs.is_dir(base):
        fs.remove_dir(base)
    try:
        for name in (CONTROLLER_DIRECTORY, *(_name(n + 1) for n in range(broker_count))):
            fs.make_dir(f"{base}/{PARTIAL}/{name}")
        fs.make_dir(f"{base}/{REPLACED_DIRECTORY}")
        controller = DirectoryIdentity(identity.cluster_id, DEFAULT_NODE_ID, uuid_text(new_uuid()))
        fill_directory(
            fs,
            f"{base}/{PARTIAL}/{CONTROLLER_DIRECTORY}",
            controller,
            lambda log: append_records(log, records, FIRST_EPOCH, now_ms),
        )
        for broker_id, directory_id in enumerate(directory_ids, BROKER_ID):
            path = f"{base}/{PARTIAL}/{_name(broker_id)}"
            if broker_id == BROKER_ID:
                _write_checkpoints(fs, directory, path)
            else:
                # Write an empty checkpoint, because a starting broker would report a missing checkpoint as lost.
                write_offsets(fs, f"{path}/{RECOVERY_POINTS}", {})
            write_identity(fs, path, DirectoryIdentity(identity.cluster_id, broker_id, uuid_text(directory_id)), is_synced=True)
        sync_names(fs, f"{base}/{PARTIAL}")
        sync_names(fs, base)
    except BaseException:
        # Remove incomplete directories, also after Ctrl-C: they may have used the last free bytes of the disk.
        with suppress(OSError):
            fs.remove_dir(base)
        raise
    fs.rename(f"{base}/{PARTIAL}", f"{base}/{GATHERING}")
    sync_names(fs, base)


def _name(broker_id: int) -> str:
    """Return the name of a broker's directory in the cluster's directory (``ottla.brokers.plan``)."""
    return f"broker-{broker_id}"


def _write_checkpoints(fs: Filesystem, source: str, target: str) -> None:
    """Write broker 1's checkpoints without the metadata log. A damaged checkpoint is copied, so that the start reports it."""
    for name in CHECKPOINTS:
        content = fs.read_file(f"{source}/{name}")
        if content is None:
            continue
        offsets = parse_offsets(content)
        if offsets is None:
            fs.write_file(f"{target}/{name}", content)
        else:
            write_offsets(fs, f"{target}/{name}", {where: at for where, at in offsets.items() if where[0] != METADATA_TOPIC})
        sync_file(fs, f"{target}/{name}")
    if fs.read_file(f"{source}/{CLEAN_FILE}") is not None:
        fs.write_file(f"{target}/{CLEAN_FILE}", clean_file(UNKNOWN_EPOCH))
        sync_file(fs, f"{target}/{CLEAN_FILE}")


# reading the logs


def _partitions(fs: Filesystem, directory: str) -> Iterator[tuple[TopicPartition, str]]:
    for name in fs.list_dir(directory):
        where = parse_directory_name(name)
        if where is not None and where[0] != METADATA_TOPIC and fs.is_dir(f"{directory}/{name}"):
            yield where, f"{directory}/{name}"


def data_bytes(fs: Filesystem, directory: str) -> int:
    """Return the size of all partitions' logs, in bytes."""
    paths = (f"{path}/{name}" for _, path in _partitions(fs, directory) for name in fs.list_dir(path) if name.endswith(LOG_SUFFIX))
    return sum(fs.open(path).size for path in paths)


def _epochs(fs: Filesystem, directory: str) -> Iterator[tuple[TopicPartition, int]]:
    for where, path in _partitions(fs, directory):
        epochs = LeaderEpochs(fs, path)
        epochs.load()
        yield where, epochs.latest


def _highest_producer_id(fs: Filesystem, directory: str, on_read: OnRead) -> int:
    """Return the highest producer id in any log, except ids that clients invented; -1 without ids."""
    highest = -1
    for (topic, _), path in _partitions(fs, directory):
        for offset in snapshot.offsets(fs, path):
            highest = max([highest, *(as_allotted(entry.producer_id) for entry in snapshot.read(fs, path, offset) or [])])
        for name in sorted(n for n in fs.list_dir(path) if n.endswith(LOG_SUFFIX)):
            with sound_batches(fs, f"{path}/{name}", parse_file_name(name, LOG_SUFFIX) or 0) as sound:
                for header, raw in read_through(sound, on_read):
                    highest = max(highest, as_allotted(header.producer_id))
                    if topic == TRANSACTION_TOPIC and not header.is_control:
                        highest = max([highest, *_ids_of_transactions(header, raw)])
    return highest


def _ids_of_transactions(header: BatchHeader, raw: Buffer) -> Iterator[int]:
    """Yield the producer ids of the transactional ids in a batch of the coordinator's log."""
    for record in records_of(raw, header):
        with suppress(DecodeError):
            _, metadata = from_record(LogRecord(record.key, record.value))
            if metadata is not None:
                ids = (metadata.producer_id, metadata.previous_producer_id, metadata.next_producer_id)
                yield from map(as_allotted, ids)


# moving data and directories


def _complete(fs: Filesystem, directory: str) -> None:
    """Move everything to its final path. After an interruption or OSError, the next call continues."""
    base = f"{directory}/{GROWTH_DIRECTORY}"
    if fs.is_dir(f"{base}/{GATHERING}"):
        broker, replaced = f"{base}/{GATHERING}/{_name(BROKER_ID)}", f"{base}/{REPLACED_DIRECTORY}"
        names = list(filter(is_broker_data, fs.list_dir(directory)))
        move_names(fs, directory, replaced, [name for name in names if name in REPLACED])
        move_names(fs, directory, broker, [name for name in names if name not in REPLACED])
        for changed in (broker, replaced, directory):
            sync_names(fs, changed)
        fs.rename(f"{base}/{GATHERING}", f"{base}/{PLACING}")
        sync_names(fs, base)
    if fs.is_dir(f"{base}/{PLACING}"):
        # The directory counts as a cluster's as soon as it contains the controller's directory. So that directory is moved last:
        # its name follows the brokers' names in alphabetical order.
        move_names(fs, f"{base}/{PLACING}", directory, fs.list_dir(f"{base}/{PLACING}"))
        sync_names(fs, directory)
        fs.remove_empty_dir(f"{base}/{PLACING}")
    with suppress(OSError):
        # The growth directory now has only the broker's old metadata, which is no longer used.
        fs.remove_dir(base)
    sync_names(fs, directory)


def _described(fs: Filesystem, directory: str, *, was_interrupted: bool) -> GrownCluster:
    identity = read_identity(fs, f"{directory}/{CONTROLLER_DIRECTORY}")
    assert identity is not None
    state = read_metadata(fs, f"{directory}/{CONTROLLER_DIRECTORY}", []).state
    partitions = [partition for topic in state.topics.values() for partition in topic.partitions]
    brokers = 0
    while fs.read_file(f"{directory}/{_name(brokers + 1)}/{META_FILE}") is not None:
        brokers += 1
    return GrownCluster(
        cluster_id=identity.cluster_id,
        brokers=brokers,
        topics=len(state.topics),
        partitions=len(partitions),
        replication_factor=max((len(partition.replicas) for partition in partitions), default=1),
        was_interrupted=was_interrupted,
        notes=list(_notes(state)),
    )


def _notes(state: ClusterState) -> Iterator[str]:
    for name in (TRANSACTION_TOPIC, SHARE_STATE_TOPIC):
        if state.config_of(TOPIC_RESOURCE, name).get(MIN_INSYNC_REPLICAS) == "1":
            yield (
                f"{name} has min.insync.replicas=1, as it must with one broker; once its replicas are in sync:"
                f" ottla config set topic {name} min.insync.replicas=2"
            )
