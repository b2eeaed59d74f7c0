"""Handles failed writes to a log, and damaged files."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from ottla.broker.partitions.disk_health import PROBE_MIN_BYTES, DiskHealth
from ottla.protocol.errors import Code, KafkaError
from ottla.storage.filesystem import Damaged, described
from ottla.storage.log import Log

log = structlog.get_logger("partition")

PROBLEMS_NAMED = 20
"""Maximum number of problems that `problems_of` returns."""


def storage_error(partition_log: Log, error: OSError) -> KafkaError:
    return KafkaError(Code.KAFKA_STORAGE_ERROR, f"{partition_log.name}: {described(error)}")


def disk_refused(disk: DiskHealth, partition_log: Log, error: OSError, size_bytes: int = PROBE_MIN_BYTES) -> None:
    """Record that a write to a log has failed.

    The write may be retried, unless the file is `Damaged`: then the log goes offline.
    """
    if isinstance(error, Damaged):
        take_offline(partition_log, described(error))
    else:
        disk.refused(partition_log.directory, error, size_bytes)


def take_offline(partition_log: Log, reason: str) -> None:
    """Take a log offline until the next start, which checks the log's files again. Writes the reason to the broker's log once.

    Other logs stay in service. Kafka takes the whole log directory offline; ottla has only one log directory.
    """
    if partition_log.offline_reason is None:
        partition_log.offline_reason = reason
        log_offline(partition_log)


def log_offline(partition_log: Log) -> None:
    log.error(
        "partition_went_offline",
        partition=repr(partition_log),
        reason=partition_log.offline_reason,
        hint="restore the files, or stop the broker and run 'ottla recover'; then restart the broker",
    )


def note_damage(partition_log: Log) -> None:
    """Report a damaged batch that a reader has found, unless it was reported before. The partition's log stays in service."""
    damage = partition_log.damage
    if damage is not None and damage is not partition_log.logged_damage:
        log.error(
            "segment_damaged",
            partition=repr(partition_log),
            segment=damage.path,
            position=damage.position,
            offset=damage.offset,
            reason=damage.reason,
            hint="fetches of the damaged offsets get CORRUPT_MESSAGE; restore the file, or stop the broker and run 'ottla recover'",
        )
    partition_log.logged_damage = damage


def problems_of(logs: Iterable[Log]) -> list[str]:
    """A line of text for each log that is offline or has a known damaged batch, at most `PROBLEMS_NAMED` lines."""
    problems: list[str] = []
    for one in logs:
        if one.offline_reason is not None:
            problems.append(f"{one.name} is offline: {one.offline_reason}")
        elif (damage := one.damage) is not None:
            problems.append(f"{one.name}: {damage.message}")
        if len(problems) == PROBLEMS_NAMED:
            break
    return problems
