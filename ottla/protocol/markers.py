"""Reads transaction markers from stored control batches."""

from __future__ import annotations

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import Allowance, TooLarge, pieces
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import plain
from ottla.protocol.records import HEADER_BYTES, BatchHeader, EndTxnMarker, marker_of, read_records

MAX_CONTROL_BYTES = 1 << 16
"""Maximum size in bytes of a decompressed control batch. Brokers do not compress markers, which have about twenty bytes."""


def read_marker(batch: Buffer, header: BatchHeader) -> EndTxnMarker | None:
    """The marker in a control batch; None for another kind of control batch, and after compaction has removed the marker.

    Raises CORRUPT_MESSAGE for bytes that are not a control batch.
    """
    if header.record_count <= 0:
        return None
    record = read_records(_inflated(batch, header) if header.compression else batch)[0]
    return marker_of(header, record.key, record.value)


def _inflated(batch: Buffer, header: BatchHeader) -> bytes:
    allowance, payload = Allowance(MAX_CONTROL_BYTES), bytearray()
    try:
        for piece in pieces(memoryview(batch)[HEADER_BYTES:], header.compression):
            allowance.take(len(piece))
            payload += piece
    except TooLarge:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"a control batch has more than {MAX_CONTROL_BYTES:,} decompressed bytes") from None
    return plain(header, payload, header.record_count)
