"""The names of partition directories, and of snapshots of the metadata log."""

from __future__ import annotations

import re

from ottla.protocol.topic_partition import MAX_PARTITION, TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
DELETED_NAME = re.compile(r".+-[0-9]+\.[0-9a-f]{32}" + DELETE_SUFFIX, re.ASCII)
"""The name that `LogDirectory.delete` gives to the directory of a deleted partition, as Kafka does. A starting broker removes only
directories with such a name.
"""

_STRAY_NAME = re.compile(r"(.+-[0-9]+)\.[0-9a-f]{32}" + STRAY_SUFFIX, re.ASCII)
_SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
_PARTITION_NAME = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.ASCII)


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition that a directory is named after; None for a name that this broker does not give to a partition.

    Each partition has exactly one name: ``t-00`` and ``t-99999999999`` are not names of partitions.
    """
    parts = _PARTITION_NAME.fullmatch(name)
    if parts is None or int(parts[2]) > MAX_PARTITION:
        return None
    return parts[1], int(parts[2])


def name_before_stray(name: str) -> str | None:
    """The name that a directory had before `LogDirectory.set_aside`, which truncates a long topic name; None for other names."""
    stray = _STRAY_NAME.fullmatch(name)
    return None if stray is None else stray[1]


def snapshot_name(end_offset: int, epoch: int) -> str:
    """The file name of a snapshot of the metadata log. Names sort by end offset, then epoch."""
    return f"{end_offset:020}-{epoch:010}.checkpoint"


def parse_snapshot_name(name: str) -> tuple[int, int] | None:
    """Return the end offset and epoch of a snapshot of the metadata log; None for names of other files."""
    parts = _SNAPSHOT_NAME.fullmatch(name)
    return None if parts is None else (int(parts[1]), int(parts[2]))
