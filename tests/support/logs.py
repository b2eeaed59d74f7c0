"""Helpers for partition logs: create and reopen them, and append small batches."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ottla.protocol.records import BatchHeader, EndTxnMarker, batches, build_batch, check_produced
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Filesystem
from ottla.storage.log import Appended, Log
from ottla.storage.producer_state import DUPLICATE_WINDOW_BATCHES
from ottla.storage.recovery import RecoveryReport, open_log

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=100)


@dataclass(slots=True)
class Logs:
    """The directory of one log, which a test may open several times."""

    fs: Filesystem
    directory: str
    latest: Log | None = None

    def new(self, config: LogConfig = SMALL) -> Log:
        self.latest = Log(self.fs, self.directory, "t", 0, config, bytes(range(16)))
        return self.latest

    def open(
        self, *, clean: bool, recovery_point: int | None = None, start: int | None = None, config: LogConfig = SMALL
    ) -> tuple[Log, RecoveryReport]:
        """Open the log again, with recovery. Returns the log and the recovery report.

        If ``recovery_point`` is not set, a clean start uses the recovery point of the log that was opened last, and a start after a
        crash uses 0.
        """
        if recovery_point is None:
            recovery_point = self.latest.recovery_point if clean and self.latest is not None else 0
        log = self.new(config)
        return log, open_log(log, NOW_MS, clean=clean, recovery_point=recovery_point, log_start_offset=start)


def append(log: Log, raw: bytearray, now_ms: int = NOW_MS, *, implicit_add: bool = False) -> Appended:
    """Append a producer's batch to a partition that has only this replica, and advance the high watermark."""
    appended = log.append_as_leader(raw, check_produced(raw), now_ms, implicit_add=implicit_add)
    log.move_high_watermark(log.log_end_offset)
    return appended


def put(
    log: Log,
    count: int = 1,
    *,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    now_ms: int = NOW_MS,
    implicit_add: bool = False,
) -> Appended:
    raw = build_batch(
        [(None, b"v" * 20)] * count,
        now_ms,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return append(log, raw, now_ms, implicit_add=implicit_add)


def end(log: Log, pid: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0) -> Appended:
    appended = log.append_marker(EndTxnMarker(pid, epoch, commit, coordinator_epoch), NOW_MS, version)
    log.move_high_watermark(log.log_end_offset)
    return appended


def state(log: Log, last_batches: int = DUPLICATE_WINDOW_BATCHES) -> tuple[object, ...]:
    """Return the state that reopening a log must not change: offsets, producers, aborted transactions.

    Only the ``last_batches`` latest batches of each producer are compared.
    """
    producers = {
        e.producer_id: (
            e.epoch,
            e.coordinator_epoch,
            e.txn_first_offset,
            [(batch.last_sequence, batch.offset_delta, batch.last_offset) for batch in e.batches[-last_batches:]],
        )
        for e in log.producers.entries.values()
    }
    aborted = [tuple(getattr(a, f) for f in a.__struct_fields__) for s in log.segments for a in s.txn_index]
    return log.log_end_offset, log.last_stable_offset, producers, list(log.producers.open_txns.items()), aborted


def stored(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Return every batch of a log as stored in its files."""
    stored_batches = []
    for segment in log.segments:
        data = segment.log.read(segment.size_bytes, 0)
        stored_batches += [(h, data[p : p + h.size_bytes]) for p, h in batches(data)]
    return stored_batches


def busy(log: Log, steps: int = 150, seed: int = 3, first_pid: int = 0) -> None:
    """Append interleaved transactions and plain batches that fill several segments."""
    rng = random.Random(seed)
    sequences: dict[int, int] = {}
    opened: set[int] = set()
    for _ in range(steps):
        pid = first_pid + rng.randrange(5)
        if pid == first_pid + 4:
            put(log, 2)
        elif pid in opened and rng.random() < 0.35:
            end(log, pid, commit=rng.random() < 0.5)
            opened.discard(pid)
        else:
            put(log, 1, pid=pid, epoch=0, sequence=sequences.get(pid, 0), transactional=True)
            sequences[pid] = sequences.get(pid, 0) + 1
            opened.add(pid)
