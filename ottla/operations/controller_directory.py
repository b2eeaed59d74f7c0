"""Writes the files that a controller needs to start: its metadata log, its identity, and a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.coordinator.result import LogRecord
from ottla.operations.metadata_log import METADATA_CONFIG, RECORDS_PER_BATCH
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.records import build_batch
from ottla.storage.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.storage.filesystem import Filesystem, sync_names
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryIdentity, write_identity
from ottla.storage.log import Log

DEFAULT_NODE_ID = 3000
"""The controller's id with ``ottla serve --brokers``."""


def fill_directory(fs: Filesystem, directory: str, identity: DirectoryIdentity, fill: Callable[[Log], None]) -> None:
    """Write and sync a controller's files in an empty directory. ``fill`` appends to the metadata log."""
    log = Log(fs, f"{directory}/{METADATA_DIRECTORY}", METADATA_TOPIC, 0, METADATA_CONFIG)
    fill(log)
    log.flush()
    log.abandon()
    write_offsets(fs, f"{directory}/{RECOVERY_POINTS}", {})
    write_identity(fs, directory, identity, is_synced=True)
    sync_names(fs, f"{directory}/{METADATA_DIRECTORY}")


def append_records(log: Log, records: Sequence[LogRecord], epoch: int, now_ms: int) -> None:
    """Append metadata records in a leader epoch."""
    log.leader_epoch = epoch
    for at in range(0, len(records), RECORDS_PER_BATCH):
        batch = build_batch(((record.key, record.value) for record in records[at : at + RECORDS_PER_BATCH]), now_ms)
        log.append_own(batch, now_ms)
