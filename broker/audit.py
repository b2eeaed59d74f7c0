"""Whether every decided transaction of a data directory is whole: the coordinator's log held against the partitions.

A power cut under ``durability=process`` can take the end of one file and leave another; Apache Kafka says nothing then.
The files are Kafka's, so its directories can be audited as well. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coordinator.cluster import METADATA_TOPIC, TRANSACTION_TOPIC
from coordinator.result import LogRecord
from coordinator.transaction.metadata import TopicPartition, TxnMetadata, from_record
from coordinator.transaction.states import PREPARED, TxnState
from protocol.errors import DecodeError
from protocol.records import BatchHeader, batches, crc_is_valid, read_marker
from storage.filesystem import Filesystem
from storage.log_dir import parse_directory_name
from storage.reading import records_of
from storage.segment import LOG_SUFFIX

Seen = Callable[[int], None]
"""Takes the bytes of a file that was read."""


@dataclass(slots=True)
class Partition:
    """What a partition's log says of transactions. ``markers`` by producer id and epoch: whether it committed."""

    first_offset: int = 0
    next_offset: int = 0
    is_compacted: bool = False
    markers: dict[tuple[int, int], bool] = field(default_factory=dict)
    open_at: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Audit:
    """``decided`` are transactions with an outcome in the log; ``findings`` are lines for a person."""

    decided: int = 0
    open: int = 0
    partitions: int = 0
    findings: list[str] = field(default_factory=list)


def size_bytes(fs: Filesystem, directory: str) -> int:
    return sum(fs.open(path).size for paths in _logs(fs, directory).values() for path in paths)


def audit(fs: Filesystem, directory: str, seen: Seen) -> Audit:
    """Read everything through. Raises OSError."""
    found = Audit()
    logs = _logs(fs, directory)
    partitions = {w: _partition(fs, paths, seen) for w, paths in logs.items() if w[0] not in (METADATA_TOPIC, TRANSACTION_TOPIC)}
    found.partitions = len(partitions)
    known_open: set[tuple[int, TopicPartition]] = set()
    for where, paths in sorted(logs.items()):
        if where[0] == TRANSACTION_TOPIC:
            _coordinator(fs, paths, partitions, found, known_open, seen)
    for where, partition in sorted(partitions.items()):
        for producer_id, offset in partition.open_at.items():
            if (producer_id, where) not in known_open:
                found.findings.append(
                    f"{_named(where)}: a transaction of producer {producer_id} is open since offset {offset},"
                    " and no coordinator knows of it"
                )
    return found


def _logs(fs: Filesystem, directory: str) -> dict[TopicPartition, list[str]]:
    found = {}
    for name in fs.list_dir(directory):
        where = parse_directory_name(name)
        if where is not None and fs.is_dir(f"{directory}/{name}"):
            paths = [f"{directory}/{name}/{n}" for n in fs.list_dir(f"{directory}/{name}") if n.endswith(LOG_SUFFIX)]
            if paths:
                found[where] = sorted(paths)
    return found


def _batches(fs: Filesystem, paths: list[str], seen: Seen) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every sound batch, up to the first that is not."""
    for path in paths:
        data = fs.read_file(path) or b""
        seen(len(data))
        for at, header in batches(data):
            raw = data[at : at + header.size_bytes]
            if not crc_is_valid(raw, header):
                return
            yield header, raw


def _partition(fs: Filesystem, paths: list[str], seen: Seen) -> Partition:
    found = Partition(int(paths[0].rpartition("/")[2][: -len(LOG_SUFFIX)]))
    for header, raw in _batches(fs, paths, seen):
        if header.record_count <= header.last_offset_delta or 0 < found.next_offset < header.base_offset:
            found.is_compacted = True
        found.next_offset = header.next_offset
        if header.is_control:
            marker = read_marker(raw, header)
            if marker is not None:
                found.markers[marker.producer_id, marker.producer_epoch] = marker.commit
                found.open_at.pop(marker.producer_id, None)
        elif header.is_transactional:
            found.open_at.setdefault(header.producer_id, header.base_offset)
    return found


def _coordinator(
    fs: Filesystem,
    paths: list[str],
    partitions: dict[TopicPartition, Partition],
    found: Audit,
    known_open: set[tuple[int, TopicPartition]],
    seen: Seen,
) -> None:
    newest: dict[str, TxnMetadata] = {}
    for header, raw in _batches(fs, paths, seen):
        for record in () if header.is_control else records_of(raw, header):
            try:
                transactional_id, metadata = from_record(LogRecord(record.key, record.value))
            except DecodeError:
                continue
            if metadata is None:
                newest.pop(transactional_id, None)
                continue
            before = newest.get(transactional_id)
            if before is not None and before.state in PREPARED and metadata.state not in PREPARED:
                found.decided += 1
                _check(before, partitions, found)
            newest[transactional_id] = metadata
    for metadata in newest.values():
        if metadata.state is TxnState.ONGOING or metadata.state in PREPARED:
            found.open += 1
            known_open |= {(metadata.producer_id, where) for where in metadata.partitions}


def _check(decided: TxnMetadata, partitions: dict[TopicPartition, Partition], found: Audit) -> None:
    """A decision that was carried out has its marker in every partition."""
    commit = decided.state is TxnState.PREPARE_COMMIT
    word = "committed" if commit else "aborted"
    who = f"{decided.transactional_id} (producer {decided.producer_id}, epoch {decided.producer_epoch})"
    for where in sorted(decided.partitions):
        partition = partitions.get(where)
        if partition is None or partition.first_offset > 0 or partition.is_compacted:
            # Deleted as a topic, or perhaps by retention or compaction: nothing can be said.
            continue
        outcome = partition.markers.get((decided.producer_id, decided.producer_epoch))
        if outcome is None:
            found.findings.append(f"{who} was {word}, and {_named(where)} has no marker of it")
        elif outcome is not commit:
            found.findings.append(f"{who} was {word}, and the marker in {_named(where)} says otherwise")


def _named(where: TopicPartition) -> str:
    return f"{where[0]}-{where[1]}"
