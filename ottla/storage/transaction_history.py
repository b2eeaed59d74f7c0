"""The transactions recorded in a log's batches: the producers' state and every marker.

Recovery builds a history of the batches that it reads, and ``ottla audit`` builds a history of a whole log.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec

from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, EndTxnMarker
from ottla.storage.producer_state import CompletedTxn, ProducerState

_EPOCH_BITS = 16
_MAX_MS = (1 << 46) - 1


class ProducerAtStart(msgspec.Struct, gc=False, frozen=True):
    """The state of a producer at the offset where reading began.

    ``last_ms`` is the time of the producer's last marker or, inside a transaction, of its last batch.
    """

    epoch: int
    last_ms: int


class TransactionHistory:
    """Applies batches in offset order to a `ProducerState`, and keeps every marker, in eight bytes each."""

    __slots__ = (
        "_at_start",
        "_had_producers",
        "_markers",
        "_next_offset",
        "_read_ms",
        "first_batch_ms",
        "first_marker_ms",
        "is_contiguous",
        "producers",
    )

    def __init__(self, producers: ProducerState, start_offset: int, *, is_contiguous: bool, read_ms: int = 0) -> None:
        """``is_contiguous``: ``producers`` includes the effect of every batch before ``start_offset``.

        ``read_ms`` is the time of reading, from which the age of idempotent producers counts. It is needed only if ``producers`` is
        used afterwards.
        """
        self.producers = producers
        self._read_ms = read_ms
        # Whether no offset was missing so far. Compaction and retention leave gaps.
        self.is_contiguous = is_contiguous
        # The timestamp of the first marker after the last gap in the offsets; None without such a marker.
        self.first_marker_ms: int | None = None
        self.first_batch_ms: int | None = None
        self._next_offset = start_offset
        self._markers: dict[int, array[int]] = {}
        self._had_producers = bool(producers.entries)
        self._at_start: dict[int, ProducerAtStart | None] = {}

    def apply(self, header: BatchHeader, raw: Buffer) -> CompletedTxn | None:
        """Apply the next batch; returns the transaction that the batch ends, if any."""
        if header.base_offset > self._next_offset or header.record_count <= header.last_offset_delta:
            self.is_contiguous = False
            self.first_marker_ms = None
        self._next_offset = header.next_offset
        if self.first_batch_ms is None:
            self.first_batch_ms = header.max_timestamp_ms
        if header.producer_id < 0:
            return None
        marker: EndTxnMarker | None = None
        if header.is_control:
            marker = read_marker(raw, header)
            if marker is None:
                return None
        if self._had_producers and header.producer_id not in self._at_start:
            self._at_start[header.producer_id] = self._now(header.producer_id)
        producers, timestamp_ms = self.producers, header.max_timestamp_ms
        if marker is None:
            # Stored batches do not contain the time of receipt, and clients choose timestamps freely. So the age of an idempotent
            # producer counts from the time of reading, and its retry is still recognised. An open transaction must keep its age
            # across a restart, so its batch's timestamp counts.
            seen_ms = timestamp_ms if header.is_transactional else self._read_ms
            producers.apply_data(header, header.base_offset, header.last_offset, timestamp_ms, seen_ms)
            return None
        if self.first_marker_ms is None:
            self.first_marker_ms = timestamp_ms
        known = self._markers.get(marker.producer_id)
        if known is None:
            known = self._markers[marker.producer_id] = array("Q")
        completed = producers.completed_by(marker, header.base_offset)
        known.append(_packed(marker, timestamp_ms, has_data=completed is not None))
        producers.apply_marker(marker, timestamp_ms)
        return completed

    def _now(self, producer_id: int) -> ProducerAtStart | None:
        entry = self.producers.entries.get(producer_id)
        return None if entry is None else ProducerAtStart(entry.epoch, entry.last_timestamp_ms)

    def producer_at_start(self, producer_id: int) -> ProducerAtStart | None:
        """The producer's state at the offset where reading began; None if the producer was unknown there."""
        if not self._had_producers:
            return None
        return self._at_start[producer_id] if producer_id in self._at_start else self._now(producer_id)

    def markers(self, producer_id: int) -> Sequence[int]:
        """The producer's markers in offset order, each packed into an integer that `unpack` reads."""
        return self._markers.get(producer_id, ())


def _packed(marker: EndTxnMarker, timestamp_ms: int, *, has_data: bool) -> int:
    time_ms = min(max(timestamp_ms, 0), _MAX_MS)
    return (time_ms << _EPOCH_BITS | marker.producer_epoch & 0xFFFF) << 2 | marker.commit << 1 | has_data


def unpack(packed: int) -> tuple[int, int, bool]:
    """Return the timestamp in ms, producer epoch, and whether the marker commits."""
    return packed >> (_EPOCH_BITS + 2), (packed >> 2) & 0xFFFF, bool(packed & 2)


def has_data(packed: int) -> bool:
    """Whether the marker ended a transaction that had records in this log."""
    return bool(packed & 1)
