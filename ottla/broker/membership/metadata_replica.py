"""What an observer has of the cluster's metadata log: batches behind the high watermark wait, committed ones are applied.

It is kept in memory, so a start reads the log from its beginning, or from the end of the snapshot that the controller has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.coordinator.result import LogRecord
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, batches, crc_is_valid
from ottla.storage.reading import records_of

MAX_WAITING_BYTES = 64 << 20
"""The largest total size of batches that are fetched and not committed."""


class ReplicaRefused(Exception):
    """Batches that cannot follow what is there already. Nothing has changed."""


class MetadataLost(Exception):
    """The controller's log has not what it has committed, and this broker applied. Nothing has changed."""


class MetadataReplica:
    """``apply`` is called with each committed record and its offset, in order, and ``applied`` after the last of an answer."""

    def __init__(self, apply: Callable[[LogRecord, int], None], applied: Callable[[], None]) -> None:
        self._apply = apply
        self._applied = applied
        self._waiting: deque[tuple[BatchHeader, bytes]] = deque()
        self._waiting_bytes = 0
        self.end_offset = 0
        self.last_epoch = 0
        self.committed_end_offset = 0
        """The offset behind the last batch that was applied."""
        self._committed_epoch = 0

    @property
    def applied_offset(self) -> int:
        """The offset of the last record that was applied; -1 before the first, as a heartbeat names it."""
        return self.committed_end_offset - 1

    def append(self, records: Buffer) -> None:
        """Take batches as they were fetched; an incomplete last one is left out. Raises `ReplicaRefused`."""
        taken: list[tuple[BatchHeader, bytes]] = []
        end_offset, last_epoch, size_bytes = self.end_offset, self.last_epoch, self._waiting_bytes
        for pos, header in batches(records):
            raw = bytes(records[pos : pos + header.size_bytes])
            if header.base_offset != end_offset:
                raise ReplicaRefused(f"a batch at offset {header.base_offset} behind the log's end {end_offset}")
            if header.leader_epoch < last_epoch:
                raise ReplicaRefused(f"a batch of leader epoch {header.leader_epoch} behind one of {last_epoch}")
            if not crc_is_valid(raw, header):
                raise ReplicaRefused(f"the batch at offset {end_offset} is damaged")
            size_bytes += len(raw)
            if size_bytes > MAX_WAITING_BYTES:
                raise ReplicaRefused(f"more than {MAX_WAITING_BYTES} bytes are not committed")
            taken.append((header, raw))
            end_offset, last_epoch = header.next_offset, header.leader_epoch
        if len(records) and not taken:
            raise ReplicaRefused("no whole batch was fetched")
        self._waiting += taken
        self.end_offset, self.last_epoch, self._waiting_bytes = end_offset, last_epoch, size_bytes

    def commit(self, high_watermark: int) -> None:
        """Apply the batches below the high watermark."""
        before = self.committed_end_offset
        while self._waiting and self._waiting[0][0].next_offset <= high_watermark:
            header, raw = self._waiting.popleft()
            self._waiting_bytes -= len(raw)
            if not header.is_control:
                for record in records_of(raw, header):
                    self._apply(LogRecord(record.key, record.value), record.offset)
            self.committed_end_offset, self._committed_epoch = header.next_offset, header.leader_epoch
        if self.committed_end_offset != before:
            self._applied()

    @property
    def is_empty(self) -> bool:
        return self.end_offset == 0

    def begin_with(self, snapshot: bytes, end_offset: int, epoch: int) -> None:
        """Apply a snapshot, behind which the log goes on at ``end_offset``. Raises `ReplicaRefused` where it is damaged."""
        assert self.is_empty, f"a snapshot behind the {self.end_offset} records that were read already"
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
        self.end_offset = self.committed_end_offset = end_offset
        self.last_epoch = self._committed_epoch = epoch
        self._applied()

    def truncate(self, end_offset: int) -> None:
        """Drop the batches from ``end_offset`` on. Raises `MetadataLost` where one of them is committed."""
        if end_offset < self.committed_end_offset:
            raise MetadataLost(
                f"the controller's metadata log parts from this broker's at offset {end_offset}, "
                f"though all below {self.committed_end_offset} was committed"
            )
        while self._waiting and self._waiting[-1][0].next_offset > end_offset:
            self._waiting_bytes -= len(self._waiting.pop()[1])
        last = self._waiting[-1][0] if self._waiting else None
        self.end_offset = self.committed_end_offset if last is None else last.next_offset
        self.last_epoch = self._committed_epoch if last is None else last.leader_epoch
