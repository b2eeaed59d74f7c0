"""How a record of the cluster's metadata log is framed: frame version, type and version stand before the message."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.result import LogRecord
from ottla.protocol.primitives import uvarint

FRAME_VERSION = 1
REGISTER_BROKER, PARTITION, PARTITION_CHANGE = 0, 3, 5
"""Types of records that have versions by the level of ``metadata.version``."""

DIRECTORY_ASSIGNMENT = 17
"""The level 3.7-IV2 of ``metadata.version``, from which on replicas have log directories (KIP-858)."""
ELIGIBLE_LEADER_REPLICAS = 23
"""The level 4.0-IV1, from which on partitions have eligible leader replicas (KIP-966)."""
CORDONED_DIRECTORIES = 30
"""The level 4.3-IV0, from which on brokers may name directories that get no new partitions (KIP-1066)."""

_VERSIONS: dict[int, tuple[tuple[int, int], ...]] = {
    REGISTER_BROKER: ((CORDONED_DIRECTORIES, 4), (DIRECTORY_ASSIGNMENT, 3), (0, 1)),
    PARTITION: ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORY_ASSIGNMENT, 1), (0, 0)),
    PARTITION_CHANGE: ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORY_ASSIGNMENT, 1), (0, 0)),
}
"""By type of record: the levels of ``metadata.version`` that brought versions of the record, newest first, and these versions."""


SKIPPED = {
    10: "delegation_token_record",  # There are no delegation tokens here.
    18: "access_control_entry_record",  # There are no ACLs here.
    19: "remove_access_control_entry_record",
    20: "no_op_record",  # It only moves the log's end on, as a sign that the controller lives.
    21: "zk_migration_state_record",  # The migration from ZooKeeper has ended before there was ottla.
    26: "remove_delegation_token_record",
}
"""Types of records that Apache Kafka's controllers write and that are passed over on purpose, by name."""


def record_version(module: Any, metadata_version: int) -> int:
    """The version in which a record is written at a level of ``metadata.version`` (MetadataVersion)."""
    levels = _VERSIONS.get(module.RECORD_TYPE)
    if levels is None:
        newest: int = module.MAX_VERSION
        return newest
    return next(version for level, version in levels if metadata_version >= level)


def metadata_record(module: Any, message: Any, version: int | None = None) -> LogRecord:
    """``message`` in the given version of its schema's ``module``, or else in the newest."""
    version = module.MAX_VERSION if version is None else version
    parts: list[Any] = [uvarint(FRAME_VERSION), uvarint(module.RECORD_TYPE), uvarint(version)]
    module.encode(parts.append, message, version)
    return LogRecord(None, b"".join(parts))
