"""The names of partitions' directories."""

from __future__ import annotations

import re

from ottla.protocol.topic_partition import MAX_PARTITION, TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
DELETED_NAME = re.compile(r".+-[0-9]+\.[0-9a-f]{32}" + DELETE_SUFFIX, re.ASCII)
"""The name that `LogDirectory.delete` gives to the directory of a deleted partition, as Kafka does. A start removes directories
with such a name, and no others."""

_PARTITION_NAME = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.ASCII)


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition that a directory is named after; None for every name that this broker gives to no partition.

    Each partition has exactly one name: ``t-00`` and ``t-99999999999`` name no partition.
    """
    parts = _PARTITION_NAME.fullmatch(name)
    if parts is None or int(parts[2]) > MAX_PARTITION:
        return None
    return parts[1], int(parts[2])
