"""Reads the cluster's metadata in a directory, Apache Kafka's or ottla's: the newest snapshot, then the later log (KIP-630).

Apache Kafka deletes the log below a snapshot, so the log alone may lack topics, partitions and configs. A directory that was
converted for Apache Kafka, and on which Apache Kafka has not started yet, has neither a log nor such a snapshot, but a bootstrap
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from struct import Struct
from typing import NamedTuple

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.metadata_log import replay_batch
from ottla.protocol.records import BatchHeader, crc_is_valid
from ottla.storage.filesystem import File, Filesystem
from ottla.storage.identity import BOOTSTRAP_FILE, KRAFT_FILE, METADATA_DIRECTORY, DirectoryError
from ottla.storage.names import parse_snapshot_name
from ottla.storage.reading import records_of
from ottla.storage.segment import LOG_SUFFIX, parse_file_name
from ottla.storage.walk import batches

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4
"""The types of the control records at the start and end of a snapshot (ControlRecordType)."""
CONTROL_KEY = Struct(">hh")
"""Version and type of a control record."""


class StoredMetadata(NamedTuple):
    """The metadata in a directory. ``is_kafkas``: Apache Kafka has run on the directory, so each partition has a directory."""

    state: ClusterState
    is_kafkas: bool


class _Damaged(Exception):
    """A snapshot of the metadata log is damaged or incomplete."""


def read_metadata(fs: Filesystem, source: str, notes: list[str], directory: str | None = None) -> StoredMetadata:
    """Read topics, configs and other metadata of the directory ``source``. The log is in ``directory``, if given.

    Records of unknown types and damaged batches are skipped. Damaged batches, missing offsets, and missing metadata are added to
    ``notes``. Raises `DirectoryError` for a damaged bootstrap snapshot.
    """
    directory = directory or f"{source}/{METADATA_DIRECTORY}"
    names = fs.list_dir(directory)
    state, next_offset, is_there = _newest_snapshot(fs, directory, names, notes)
    for name in sorted(n for n in names if parse_file_name(n, LOG_SUFFIX) is not None):
        with closing(fs.open(f"{directory}/{name}")) as file:
            wrong = end = 0
            for position, header, raw in batches(file):
                end = position + header.size_bytes
                if not crc_is_valid(raw, header):
                    wrong += 1
                elif header.base_offset >= next_offset:
                    if header.base_offset > next_offset and not wrong:
                        missing = f"{next_offset} to {header.base_offset - 1}"
                        notes.append(f"{directory} lacks offsets {missing}: topics may lack partitions, configs and ids")
                    next_offset = header.next_offset
                    is_there |= not header.is_control
                    replay_batch(state, header, raw, is_strict=False)
            if wrong:
                notes.append(f"{file.path}: {wrong} batches have a wrong CRC and were skipped")
            if end < file.size:
                notes.append(f"{file.path} cannot be read from byte {end} on: topics may lack partitions, configs and ids")
    if not is_there:
        is_there = _bootstrap(fs, f"{source}/{BOOTSTRAP_FILE}", state)
    if not is_there:
        notes.append("no cluster metadata: topics get default configs")
    return StoredMetadata(state, KRAFT_FILE in names)


def _newest_snapshot(fs: Filesystem, directory: str, names: list[str], notes: list[str]) -> tuple[ClusterState, int, bool]:
    """Return the state from the newest complete snapshot, the snapshot's end offset, and whether it has records."""
    for (end_offset, _), name in _newest_first(names):
        path, state = f"{directory}/{name}", ClusterState(0)
        try:
            return state, end_offset, _replay_snapshot(fs, path, state)
        except _Damaged:
            notes.append(f"{path} is damaged and was skipped")
    return ClusterState(0), 0, False


def snapshot_end(fs: Filesystem, directory: str) -> tuple[int, int] | None:
    """Return the end offset and epoch of the newest complete snapshot in a directory of the log."""
    for position, name in _newest_first(fs.list_dir(directory)):
        with suppress(_Damaged):
            _replay_snapshot(fs, f"{directory}/{name}", ClusterState(0))
            return position
    return None


def _newest_first(names: Iterable[str]) -> list[tuple[tuple[int, int], str]]:
    return sorted(((position, n) for n in names if (position := parse_snapshot_name(n)) is not None), reverse=True)


def _bootstrap(fs: Filesystem, path: str, state: ClusterState) -> bool:
    """Read the bootstrap snapshot into ``state``. Returns whether it exists and has records. Raises `DirectoryError`."""
    if fs.is_dir(path) is None:
        return False
    try:
        return _replay_snapshot(fs, path, state)
    except _Damaged:
        raise DirectoryError(f"{path} is damaged; restore it, or move it away to import topics with default configs") from None


def _replay_snapshot(fs: Filesystem, path: str, state: ClusterState) -> bool:
    """Read a snapshot into ``state``. Returns whether it has records.

    Raises `_Damaged` if its footer is missing, a CRC is wrong, or anything follows the footer.
    """
    has_records = has_ended = False
    with closing(fs.open(path)) as file:
        for header, raw in _whole(file):
            if has_ended:
                raise _Damaged
            has_records |= not header.is_control
            has_ended = header.is_control and any(_control_type(r.key) == SNAPSHOT_FOOTER for r in records_of(raw, header))
            replay_batch(state, header, raw, is_strict=False)
    if not has_ended:
        raise _Damaged
    return has_records


def _whole(file: File) -> Iterator[tuple[BatchHeader, memoryview]]:
    end = 0
    for position, header, raw in batches(file):
        if not crc_is_valid(raw, header):
            raise _Damaged
        end = position + header.size_bytes
        yield header, raw
    if end != file.size:
        raise _Damaged


def _control_type(key: bytes | None) -> int | None:
    return CONTROL_KEY.unpack(key)[1] if key is not None and len(key) == CONTROL_KEY.size else None
