"""This broker's copy of the cluster's metadata log, in ``__cluster_metadata-0`` of its log directory (KafkaMetadataLog).

An observer of Apache Kafka keeps the same files: segments with indexes, leader epochs, and the snapshot below the first segment.
The copy gets every fetched batch in order, committed or not. It is not synced for each batch, because the controller has the log; a
clean stop and the checkpoints sync it. A start reads the copy instead of fetching the log again.

The copy never stops the broker: if the disk refuses a batch, the copy ends there until the next start. A copy that is damaged, or
that the controller's log does not continue, is set aside as ``__cluster_metadata-0.ID-stray``, because it may have the only copy of
a record that the controller has lost. As in the controller's log, segments roll and are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import structlog

from ottla.broker.loop.env import Clock, Randomness
from ottla.broker.membership.metadata_fetch import METADATA_TOPIC_ID
from ottla.operations.metadata_log import METADATA_CONFIG
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, batches, crc_is_valid
from ottla.storage.filesystem import described
from ottla.storage.following import UnexpectedOffset, append_as_follower
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.names import parse_snapshot_name, snapshot_name
from ottla.storage.reading import all_batches
from ottla.storage.truncation import end_after, truncate_fully_and_start_at
from ottla.storage.walk import DamagedBatch

MAX_EPOCH = (1 << 31) - 1
UNREADABLE = (OSError, KafkaError, DamagedBatch, ValueError)
"""Exceptions that reading a damaged log or snapshot may raise."""

log = structlog.get_logger("membership")


class CopyEnv(Clock, Randomness, Protocol):
    """The part of `broker.loop.env.Env` that a copy uses."""


class MetadataCopy:
    """This broker's copy of the cluster's metadata log. A starting broker opens its copy before it fetches from the controller.

    ``end_offset`` and ``last_epoch`` are 0 for an empty copy.
    """

    def __init__(self, env: CopyEnv, directory: LogDirectory) -> None:
        self._env = env
        self._directory = directory
        self._is_behind = False
        """Whether the disk has refused a fetched batch. If so, no further batch is appended."""
        self.end_offset = self.last_epoch = 0
        self._snapshot: tuple[str, int, int] | None = None
        self._log, _ = directory.open(METADATA_TOPIC, 0, METADATA_CONFIG, env.now_ms(), METADATA_TOPIC_ID)
        try:
            self._check()
        except UNREADABLE as error:
            self.set_aside(f"the copy cannot be read: {described(error)}")

    def _check(self) -> None:
        """Read all batches once, so that a damaged batch is found before any batch is applied."""
        self._log.check_online()
        self._snapshot = self._newest_snapshot()
        end_offset, last_epoch = self._log.log_start_offset, 0
        if self._snapshot is not None:
            _, snapshot_end, last_epoch = self._snapshot
            _whole(self._read(self._snapshot[0]))
            end_offset = snapshot_end
            if self._log.log_end_offset < snapshot_end:
                truncate_fully_and_start_at(self._log, snapshot_end, self._env.now_ms())
        if self._log.log_start_offset > (0 if self._snapshot is None else end_offset):
            raise ValueError(f"the copy begins at offset {self._log.log_start_offset}, and no snapshot has the earlier records")
        for header, _ in all_batches(self._log):
            last_epoch = max(last_epoch, header.leader_epoch)
        self.end_offset, self.last_epoch = self._log.log_end_offset, last_epoch

    def _newest_snapshot(self) -> tuple[str, int, int] | None:
        """Return the path, end offset and epoch of the newest snapshot, if any."""
        newest = max(filter(None, map(parse_snapshot_name, self._directory.fs.list_dir(self._log.directory))), default=None)
        return None if newest is None else (f"{self._log.directory}/{snapshot_name(*newest)}", *newest)

    def _read(self, path: str) -> bytes:
        return self._directory.fs.read_file(path) or b""

    # Reading the copy

    def snapshot_batches(self) -> Iterator[tuple[BatchHeader, Buffer]]:
        """The batches of the snapshot below the log; none if the log begins at offset 0."""
        if self._snapshot is not None:
            yield from _whole(self._read(self._snapshot[0]))

    @property
    def snapshot_end(self) -> int:
        return 0 if self._snapshot is None else self._snapshot[1]

    def batches(self, end_offset: int) -> Iterator[tuple[BatchHeader, Buffer]]:
        """The batches from the snapshot's end to ``end_offset``. Raises the exceptions in `UNREADABLE`."""
        for header, raw in all_batches(self._log):
            if header.base_offset >= end_offset:
                return
            if header.base_offset >= self.snapshot_end:
                yield header, raw

    # Writing the copy

    def append(self, records: Buffer) -> None:
        """Append whole, checked batches that follow the copy's end."""
        if self._is_behind or not len(records):
            return
        try:
            append_as_follower(self._log, records, MAX_EPOCH, self._env.now_ms())
        except (*UNREADABLE, UnexpectedOffset) as error:
            self._fall_behind(error)
        else:
            self.end_offset, self.last_epoch = self._log.log_end_offset, max(self.last_epoch, self._log.epochs.latest)

    def committed(self, end_offset: int) -> None:
        """Set the offset up to which the controller has committed the log."""
        end_offset = min(end_offset, self._log.log_end_offset)
        if end_offset > self._log.high_watermark:
            self._log.move_high_watermark(end_offset)

    def truncate(self, end_offset: int) -> None:
        """Remove the batches at and above ``end_offset``. They were never committed."""
        if end_offset >= self._log.log_end_offset:
            return
        try:
            if end_after(self._log, end_offset) > self._log.log_start_offset:
                self._directory.truncate(self._log, end_offset, self._env.now_ms())
            else:
                # `LogDirectory.truncate` writes a checkpoint, which is not allowed before the starting broker has opened all logs.
                truncate_fully_and_start_at(self._log, self._log.log_start_offset, self._env.now_ms())
        except UNREADABLE as error:
            self._fall_behind(error)
        else:
            self.end_offset, self.last_epoch = self._log.log_end_offset, max(self._log.epochs.latest, 0)
            log.info("metadata_copy_truncated", end_offset=self.end_offset)

    def begin_with(self, snapshot: bytes, end_offset: int, epoch: int) -> None:
        """Replace the copy by a snapshot, after which the log continues at ``end_offset``."""
        fs, path = self._directory.fs, f"{self._log.directory}/{snapshot_name(end_offset, epoch)}"
        self._take_out()
        try:
            if fs.is_dir(self._log.directory):
                fs.remove_dir(self._log.directory)
            self._log = self._directory.create(METADATA_TOPIC, 0, METADATA_CONFIG, METADATA_TOPIC_ID)
            truncate_fully_and_start_at(self._log, end_offset, self._env.now_ms())
            fs.make_dir(self._log.directory)
            fs.write_file(path, snapshot)
        except UNREADABLE as error:
            self._fall_behind(error)
        else:
            self._snapshot, self._is_behind = (path, end_offset, epoch), False
            self.end_offset, self.last_epoch = end_offset, epoch

    def _fall_behind(self, error: Exception) -> None:
        self._is_behind = True
        log.warning(
            "metadata_copy_not_written",
            directory=self._log.directory,
            reason=described(error),
            hint="the broker writes the copy at its next start",
        )

    def _take_out(self) -> None:
        self._directory.logs.pop((METADATA_TOPIC, 0), None)
        self._log.is_failed = True
        with suppress(OSError):
            self._log.abandon()

    def set_aside(self, reason: str) -> None:
        """Rename the copy's directory, and begin an empty copy."""
        directory, before = self._directory, self._log
        self._take_out()
        self.end_offset, self.last_epoch, self._snapshot = 0, 0, None
        try:
            if directory.fs.is_dir(before.directory):
                renamed = directory.set_aside(METADATA_TOPIC, 0, self._env.random_uuid().hex())
                log.warning(
                    "metadata_copy_set_aside",
                    directory=renamed,
                    reason=reason,
                    hint="the copy may have metadata that the controller has lost; use it with ottla cluster rebuild-controller",
                )
        except OSError as error:
            self._log = Log(directory.fs, before.directory, METADATA_TOPIC, 0, METADATA_CONFIG, METADATA_TOPIC_ID)
            self._fall_behind(error)
            return
        self._log = directory.create(METADATA_TOPIC, 0, METADATA_CONFIG, METADATA_TOPIC_ID)
        self._is_behind = False


def _whole(snapshot: bytes) -> Iterator[tuple[BatchHeader, Buffer]]:
    """The batches of a snapshot. Raises ValueError if the snapshot is damaged."""
    end, found = 0, list[tuple[BatchHeader, Buffer]]()
    for position, header in batches(snapshot):
        raw = snapshot[position : position + header.size_bytes]
        if not crc_is_valid(raw, header):
            break
        found.append((header, raw))
        end = position + header.size_bytes
    if end != len(snapshot):
        raise ValueError(f"the snapshot is damaged at byte {end}")
    return iter(found)
