"""Stray directories as the source of an adoption: all partitions of one topic that a broker has set aside."""

from __future__ import annotations

from contextlib import closing

from ottla.operations.copying import PIECE_BYTES
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.uuids import uuid_text
from ottla.storage.checkpoints import read_partition_metadata
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError
from ottla.storage.names import parse_directory_name
from ottla.storage.segment import LOG_SUFFIX
from ottla.storage.stray_directories import stray_partition


def partition_of_source(source: str) -> TopicPartition | None:
    """Return the partition whose directory ``source`` is, or was before it was set aside; None for another name."""
    name = source.rstrip("/").rpartition("/")[2]
    return stray_partition(name) or parse_directory_name(name)


def is_stray(source: str) -> bool:
    return stray_partition(source.rstrip("/").rpartition("/")[2]) is not None


def parent_of(source: str) -> str:
    return source.rstrip("/").rpartition("/")[0] or ("/" if source.startswith("/") else ".")


def strays_of_topic(fs: Filesystem, source: str) -> dict[TopicPartition, str]:
    """Return, by partition, ``source`` and the stray directories beside it that have the same topic name and id.

    Raises `DirectoryError` if another partition was set aside more than once, with different records, and OSError.
    """
    source, parent = source.rstrip("/"), parent_of(source)
    name = source.rpartition("/")[2]
    own = stray_partition(name)
    assert own is not None, "not the name of a stray directory"
    topic_id = read_partition_metadata(fs, source)
    found = {own: source}
    for other in fs.list_dir(parent) if topic_id is not None else ():
        where, path = stray_partition(other), f"{parent}/{other}"
        if where is None or other == name or where == own or where[0] != own[0] or not fs.is_dir(path):
            continue
        if read_partition_metadata(fs, path) != topic_id:
            continue
        if where in found:
            if _has_same_records(fs, found[where], path):
                # One of the two directories is a copy from a killed adoption, which the next start set aside as well.
                continue
            raise DirectoryError(
                f"{found[where]} and {path} are both partition {where[1]} of the topic id {uuid_text(topic_id or b'')};"
                " move one of them away"
            )
        found[where] = path
    return found


def _has_same_records(fs: Filesystem, one: str, other: str) -> bool:
    names = [name for name in fs.list_dir(one) if name.endswith(LOG_SUFFIX)]
    return names == [name for name in fs.list_dir(other) if name.endswith(LOG_SUFFIX)] and all(
        _is_same(fs, f"{one}/{name}", f"{other}/{name}") for name in names
    )


def _is_same(fs: Filesystem, one: str, other: str) -> bool:
    with closing(fs.open(one)) as first, closing(fs.open(other)) as second:
        return first.size == second.size and all(
            first.read(size, at) == second.read(size, at)
            for at in range(0, first.size, PIECE_BYTES)
            if (size := min(PIECE_BYTES, first.size - at))
        )
