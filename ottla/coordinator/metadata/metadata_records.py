"""Frames a record of the cluster's metadata log: frame version, type and version, then the message."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.result import LogRecord
from ottla.protocol.primitives import uvarint

FRAME_VERSION = 1
REGISTER_BROKER, PARTITION, PARTITION_CHANGE = 0, 3, 5
"""Record types whose version depends on the level of ``metadata.version``."""

DIRECTORY_ASSIGNMENT = 17
"""Level 3.7-IV2 of ``metadata.version``, which adds log directories of replicas (KIP-858)."""
ELIGIBLE_LEADER_REPLICAS = 23
"""Level 4.0-IV1 of ``metadata.version``, which adds eligible leader replicas (KIP-966)."""
CORDONED_DIRECTORIES = 30
"""Level 4.3-IV0 of ``metadata.version``, which adds directories that get no new partitions (KIP-1066)."""

_VERSIONS: dict[int, tuple[tuple[int, int], ...]] = {
    REGISTER_BROKER: ((CORDONED_DIRECTORIES, 4), (DIRECTORY_ASSIGNMENT, 3), (0, 1)),
    PARTITION: ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORY_ASSIGNMENT, 1), (0, 0)),
    PARTITION_CHANGE: ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORY_ASSIGNMENT, 1), (0, 0)),
}
"""Record type -> pairs of a ``metadata.version`` level and the record version that it introduced, newest first."""


SKIPPED = {
    20: "no_op_record",  # NoOpRecord only advances the log end offset, to show that the controller is alive.
    21: "zk_migration_state_record",  # ottla has no migration from ZooKeeper.
}
"""Record types of Apache Kafka's controllers that are ignored on purpose, by name."""


def record_version(module: Any, metadata_version: int) -> int:
    """Return the version of a record at a level of ``metadata.version`` (MetadataVersion of Kafka)."""
    levels = _VERSIONS.get(module.RECORD_TYPE)
    if levels is None:
        newest: int = module.MAX_VERSION
        return newest
    return next(version for level, version in levels if metadata_version >= level)


def metadata_record(module: Any, message: Any, version: int | None = None) -> LogRecord:
    """Encode ``message`` in the given version of its schema's ``module``, or the newest version."""
    version = module.MAX_VERSION if version is None else version
    parts: list[Any] = [uvarint(FRAME_VERSION), uvarint(module.RECORD_TYPE), uvarint(version)]
    module.encode(parts.append, message, version)
    return LogRecord(None, b"".join(parts))
