"""An observer's replica of the metadata log: applies committed batches, and queues batches above the high watermark.

Uncommitted batches are kept in memory. The whole log is also copied to the broker's directory (`metadata_copy`). A start applies
the copy as soon as the controller's first response shows that the controller's log continues the copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import structlog

from ottla.broker.membership.metadata_copy import MAX_EPOCH, UNREADABLE, MetadataCopy
from ottla.coordinator.result import LogRecord
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, batches, crc_is_valid
from ottla.storage.reading import records_of

MAX_WAITING_BYTES = 64 << 20
"""Upper bound, in bytes, on fetched batches that are not committed."""


log = structlog.get_logger("membership")


class ReplicaRefused(Exception):
    """Fetched batches do not continue the log, or are damaged. None of them was appended."""


class MetadataLost(Exception):
    """The controller's log lacks committed records that this broker has applied, or this broker's copy cannot be read."""


class MetadataReplica:
    """An observer's replica of the metadata log.

    ``apply`` is called with each committed record and its offset, in order; ``applied`` after the last record of each response.
    ``copy`` is the log on disk; without a copy the replica is only in memory.
    """

    def __init__(
        self, apply: Callable[[LogRecord, int], None], applied: Callable[[], None], copy: MetadataCopy | None = None
    ) -> None:
        self._apply = apply
        self._applied = applied
        self._waiting: deque[tuple[BatchHeader, bytes]] = deque()
        self._waiting_bytes = 0
        self._copy = copy
        self.end_offset, self.last_epoch = (0, 0) if copy is None else (copy.end_offset, copy.last_epoch)
        self._unread_end = self.end_offset
        """The end offset of the copy found at the start; 0 once the copy is applied."""
        self.committed_end_offset = 0
        """The end offset of the last batch that was applied."""
        self._committed_epoch = 0

    @property
    def applied_offset(self) -> int:
        """The offset of the last record that was applied; -1 before the first record, as in heartbeats."""
        return self.committed_end_offset - 1

    def append(self, records: Buffer) -> None:
        """Append fetched batches; an incomplete last batch is dropped. Raises `ReplicaRefused`."""
        taken: list[tuple[BatchHeader, bytes]] = []
        end_offset, last_epoch, size_bytes = self.end_offset, self.last_epoch, self._waiting_bytes
        for pos, header in batches(records):
            raw = bytes(records[pos : pos + header.size_bytes])
            if header.base_offset != end_offset:
                if self._unread_end and self._copy is not None:
                    # The copy is of another log. The controller cannot detect this if both logs have the same leader epochs.
                    self._begin_anew(
                        f"the controller's log has a batch at offset {header.base_offset}, and this broker's copy ends at"
                        f" {end_offset}"
                    )
                raise ReplicaRefused(f"the controller sent a batch at offset {header.base_offset}, after the log end {end_offset}")
            if header.leader_epoch < last_epoch:
                raise ReplicaRefused(
                    f"the controller sent a batch of leader epoch {header.leader_epoch} after one of leader epoch {last_epoch}"
                )
            if not crc_is_valid(raw, header):
                raise ReplicaRefused(f"the batch at offset {end_offset} is damaged")
            size_bytes += len(raw)
            if size_bytes > MAX_WAITING_BYTES:
                raise ReplicaRefused(f"more than {MAX_WAITING_BYTES} bytes are not committed")
            taken.append((header, raw))
            end_offset, last_epoch = header.next_offset, header.leader_epoch
        if len(records) and not taken:
            raise ReplicaRefused("the response has no complete batch")
        self._waiting += taken
        if self._copy is not None:
            self._copy.append(b"".join(raw for _, raw in taken))
        self.end_offset, self.last_epoch, self._waiting_bytes = end_offset, last_epoch, size_bytes

    def commit(self, high_watermark: int) -> None:
        """Apply the batches below the high watermark. Raises `MetadataLost` if the copy can no longer be read."""
        before = self.committed_end_offset
        if self._unread_end and high_watermark >= 0:
            self._read_copy(high_watermark)
        while self._waiting and self._waiting[0][0].next_offset <= high_watermark:
            header, raw = self._waiting.popleft()
            self._waiting_bytes -= len(raw)
            self._apply_batch(header, raw)
        if self.committed_end_offset != before:
            if self._copy is not None:
                self._copy.committed(self.committed_end_offset)
            self._applied()

    def _apply_batch(self, header: BatchHeader, raw: Buffer) -> None:
        if not header.is_control:
            for record in records_of(raw, header):
                self._apply(LogRecord(record.key, record.value), record.offset)
        self.committed_end_offset, self._committed_epoch = header.next_offset, header.leader_epoch

    def _read_copy(self, high_watermark: int) -> None:
        """Apply the copy found at the start. Its uncommitted batches are queued before the batches fetched since the start."""
        assert self._copy is not None
        unread_end, self._unread_end = self._unread_end, 0
        waiting: list[tuple[BatchHeader, bytes]] = []
        try:
            for header, raw in self._copy.snapshot_batches():
                if not header.is_control:
                    for record in records_of(raw, header):
                        self._apply(LogRecord(record.key, record.value), self._copy.snapshot_end - 1)
            self.committed_end_offset = self._copy.snapshot_end
            for header, raw in self._copy.batches(unread_end):
                if header.next_offset <= high_watermark:
                    self._apply_batch(header, raw)
                else:
                    waiting.append((header, bytes(raw)))
        except UNREADABLE as error:
            raise MetadataLost(f"this broker's copy of the cluster's metadata cannot be read: {error}") from error
        self._waiting.extendleft(reversed(waiting))
        self._waiting_bytes += sum(len(raw) for _, raw in waiting)
        log.info("metadata_copy_read", end_offset=unread_end)

    @property
    def is_empty(self) -> bool:
        """Whether no record was applied yet. If so, a snapshot may replace the replica."""
        return self.committed_end_offset == 0

    def begin_with(self, snapshot: bytes, end_offset: int, epoch: int) -> None:
        """Apply a snapshot, after which the log continues at ``end_offset``. Raises `ReplicaRefused` for a damaged snapshot."""
        assert self.is_empty, f"a snapshot after {self.committed_end_offset} records were applied"
        whole: list[tuple[int, BatchHeader]] = []
        end = 0
        for pos, header in batches(snapshot):
            if not crc_is_valid(snapshot[pos : pos + header.size_bytes], header):
                raise ReplicaRefused(f"the snapshot is damaged at byte {pos}")
            whole.append((pos, header))
            end = pos + header.size_bytes
        if end != len(snapshot):
            raise ReplicaRefused(f"the snapshot is damaged at byte {end}")
        for pos, header in whole:
            if not header.is_control:
                for record in records_of(snapshot[pos : pos + header.size_bytes], header):
                    self._apply(LogRecord(record.key, record.value), end_offset - 1)
        self._waiting.clear()
        self._waiting_bytes = self._unread_end = 0
        self.end_offset = self.committed_end_offset = end_offset
        self.last_epoch = self._committed_epoch = epoch
        if self._copy is not None:
            self._copy.begin_with(snapshot, end_offset, epoch)
        self._applied()

    def truncate(self, end_offset: int, epoch: int = MAX_EPOCH) -> None:
        """Drop the batches at and above ``end_offset``, and all batches of leader epochs above ``epoch``.

        If the copy found at the start is not applied yet, it is set aside instead, because it may have records that the controller
        has lost. The log is then fetched from its beginning. Raises `MetadataLost` if a committed batch would be dropped.
        """
        if self._unread_end and self._copy is not None:
            self._begin_anew(
                f"the copy differs from the controller's log from offset {end_offset} on, and ends at {self._unread_end}"
            )
            return
        if end_offset < self.committed_end_offset:
            raise MetadataLost(
                f"the controller's metadata log differs from this broker's from offset {end_offset} on, "
                f"although all records below {self.committed_end_offset} were committed"
            )
        if epoch < self._committed_epoch:
            raise MetadataLost(
                f"the controller's metadata log differs from this broker's in leader epoch {epoch}, "
                f"although epoch {self._committed_epoch} was committed"
            )
        while self._waiting and (self._waiting[-1][0].next_offset > end_offset or self._waiting[-1][0].leader_epoch > epoch):
            self._waiting_bytes -= len(self._waiting.pop()[1])
        last = self._waiting[-1][0] if self._waiting else None
        if last is not None:
            self.end_offset, self.last_epoch = last.next_offset, last.leader_epoch
        else:
            self.end_offset, self.last_epoch = self.committed_end_offset, self._committed_epoch
        if self._copy is not None:
            self._copy.truncate(self.end_offset)

    def _begin_anew(self, reason: str) -> None:
        """Set aside the copy, which was not applied yet, and fetch the log from its beginning."""
        assert self._copy is not None
        self._copy.set_aside(reason)
        self._waiting.clear()
        self._waiting_bytes = self._unread_end = self.end_offset = self.last_epoch = 0
