"""``ottla audit``: reads every batch of a data directory, and compares each transaction's outcome at its coordinator with the
markers in the partitions.

The files are in Kafka's format, so directories of Apache Kafka can be audited as well. Nothing is written. Segments are read in
pieces; only the producers' states and eight bytes for each marker are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.audit import DecisionAudit, PartitionView, TornTransaction
from ottla.operations.log_ends import read_known_ends
from ottla.operations.metadata_log import replay_batch, topics_born
from ottla.operations.segments import OnRead, read_through, sound_batches
from ottla.protocol.internal_topics import METADATA_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import KRAFT_FILE, META_FILE, METADATA_DIRECTORY, DirectoryError
from ottla.storage.names import parse_directory_name
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import LOG_SUFFIX, file_name, parse_file_name
from ottla.storage.transaction_history import TransactionHistory


@dataclass(slots=True)
class DirectoryAudit:
    """The result of a directory's audit.

    ``decided`` and ``open`` count the transactions in the coordinators' logs with and without an outcome. ``omitted`` counts torn
    transactions that are not in ``torn``. ``unreadable`` has messages about files that could not be read to their end, with the
    position, and about logs that do not end at the offset stored by the last clean shutdown.
    """

    decided: int
    open: int
    partitions: int
    torn: list[TornTransaction]
    omitted: int
    unreadable: list[str]


class _Reader:
    def __init__(self, fs: Filesystem, directory: str, on_read: OnRead) -> None:
        self._fs = fs
        self._directory = directory
        self._on_read = on_read
        self.unreadable: list[str] = []
        self.logs = logs_of(fs, directory)
        self._ends = read_known_ends(fs, directory)

    def batches(self, where: TopicPartition) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Yield the batches of a log before the first damaged batch."""
        for base_offset in self.logs[where]:
            path = f"{self._directory}/{where[0]}-{where[1]}/{file_name(base_offset, LOG_SUFFIX)}"
            with sound_batches(self._fs, path, base_offset) as sound:
                yield from read_through(sound, self._on_read)
                if not sound.is_whole:
                    self.unreadable.append(f"{path} cannot be read from byte {sound.end} on")
                    return
                if base_offset == self.logs[where][-1] and self._ends.is_elsewhere(where, sound):
                    self.unreadable.append(self._ends.other_end(where, sound))


def logs_of(fs: Filesystem, directory: str) -> dict[TopicPartition, list[int]]:
    """Return the base offsets of each partition's segments, ascending. Raises `DirectoryError` if ``directory`` is not a data
    directory."""
    logs: dict[TopicPartition, list[int]] = {}
    names = fs.list_dir(directory)
    for name in names:
        where = parse_directory_name(name)
        if where is not None and fs.is_dir(f"{directory}/{name}"):
            parsed = (parse_file_name(file, LOG_SUFFIX) for file in fs.list_dir(f"{directory}/{name}"))
            bases = sorted(base for base in parsed if base is not None)
            if bases:
                logs[where] = bases
    if not logs and META_FILE not in names:
        raise DirectoryError(f"{directory} is not a data directory: it has neither {META_FILE} nor partitions")
    return logs


def size_bytes(fs: Filesystem, directory: str) -> int:
    """Return the size of all logs, in bytes. Raises `DirectoryError` and OSError."""
    return sum(
        fs.open(f"{directory}/{topic}-{index}/{file_name(base, LOG_SUFFIX)}").size
        for (topic, index), bases in logs_of(fs, directory).items()
        for base in bases
    )


def audit_directory(fs: Filesystem, directory: str, on_read: OnRead) -> DirectoryAudit:
    """Read every log of a directory. Raises `DirectoryError` and OSError."""
    reader = _Reader(fs, directory, on_read)
    state = ClusterState(0)
    topics = _topics(reader, state) if (METADATA_TOPIC, 0) in reader.logs else {}
    views = {}
    for where in reader.logs:
        if where[0] not in (METADATA_TOPIC, TRANSACTION_TOPIC):
            history = TransactionHistory(ProducerState(), 0, is_contiguous=True)
            for header, raw in reader.batches(where):
                history.apply(header, raw)
            views[where] = PartitionView(history, topics.get(where[0], (None, 0))[0])
    partition_count = len(views)
    # Only the metadata of a single broker of ottla describes exactly the partitions of this directory. The metadata of Apache
    # Kafka, and of a broker of a cluster, describe other brokers' partitions as well.
    is_ours = state.is_alone and KRAFT_FILE not in fs.list_dir(f"{directory}/{METADATA_DIRECTORY}")
    for topic, (born_ms, count) in topics.items() if is_ours else ():
        for index in range(count):
            # A partition without a directory has either lost all its data, or never had any.
            if topic != TRANSACTION_TOPIC and (topic, index) not in views:
                views[topic, index] = PartitionView(TransactionHistory(ProducerState(), 0, is_contiguous=True), born_ms)
    audit = DecisionAudit(views.get)
    for where in sorted(reader.logs):
        if where[0] == TRANSACTION_TOPIC:
            audit.read(reader.batches(where))
    torn = audit.torn_transactions(sorted(views.items(), key=lambda pair: pair[0]))
    return DirectoryAudit(
        decided=audit.decided,
        open=audit.open,
        partitions=partition_count,
        torn=torn,
        omitted=audit.omitted,
        unreadable=reader.unreadable,
    )


def _topics(reader: _Reader, state: ClusterState) -> dict[str, tuple[int, int]]:
    """Return the creation time in ms and the partition count of each topic, by name. Replays the metadata into ``state``."""

    def replayed() -> Iterator[tuple[BatchHeader, Buffer]]:
        for header, raw in reader.batches((METADATA_TOPIC, 0)):
            replay_batch(state, header, raw, is_strict=False)
            yield header, raw

    born_ms = topics_born(replayed())
    return {name: (born_ms[name], topic.partition_count) for name, topic in state.topics.items() if name in born_ms}
