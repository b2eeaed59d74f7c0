"""Recompresses a client's batch for a topic with another ``compression.type``.

Corresponds to LogValidator.buildRecordsAndAssignOffsets. The bytes of the records stay the same, and so do the batch's producer,
sequence, timestamps and transactional bit; other bits of the attributes are cleared. Kafka re-encodes the records, so the base
timestamp of its batch is always the timestamp of the first record.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ottla.protocol.deflating import Deflated
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import PIECE_BYTES, pieces
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import READ_AHEAD_BYTES
from ottla.protocol.records import HEADER_BYTES, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, ZSTD, BatchHeader, pack_batch, read_header
from ottla.protocol.steps import in_thread

AT_ONCE_BYTES = 1 << 14
"""Maximum size in bytes of a decompressed payload that is compressed on the event loop, usually in less than 0.5 ms."""
_STATE_BYTES = 1 << 20
"""Estimated memory in bytes of a compressor other than zstd's, including a piece of the payload."""
_COPIES = 3
"""Number of copies of the compressed payload in memory at the end: in parts, joined, and in the batch."""
_ZSTD_MAX_STATE_BYTES = 1 << 30
_ZSTD_STATES = ((9, 8 << 20, 4), (19, 32 << 20, 8), (22, _ZSTD_MAX_STATE_BYTES, 10))
"""Estimated memory of zstd's compressor up to each level: (level, maximum bytes, maximum as a multiple of the payload)."""


class CompressionTarget(NamedTuple):
    """The number of a compression in a batch's attributes, and its level; None for a compression without levels."""

    compression: int
    level: int | None


def memory_bytes(target: CompressionTarget, inflated_bytes: int, limit_bytes: int) -> int:
    """Estimated memory in bytes for compressing to a batch of at most ``limit_bytes``."""
    needed = _STATE_BYTES + _COPIES * min(inflated_bytes, limit_bytes)
    if target.compression == ZSTD and target.level is not None:
        most, times = next((most, times) for level, most, times in _ZSTD_STATES if target.level <= level)
        needed += min(most, times * inflated_bytes)
    return needed


class _Recompression:
    def __init__(
        self, batch: Buffer, header: BatchHeader, target: CompressionTarget, inflated_bytes: int, limit_bytes: int
    ) -> None:
        self._header = header
        self._pieces = pieces(memoryview(batch)[HEADER_BYTES:], header.compression)
        self._target = target
        self._deflated = Deflated(target.compression, target.level, inflated_bytes)
        self._limit_bytes = limit_bytes
        self.batch: bytearray | None = None

    def go_on(self) -> None:
        """Recompress the next `READ_AHEAD_BYTES`. At the end sets `batch`. Raises MESSAGE_TOO_LARGE, CORRUPT_MESSAGE."""
        waiting, size = bytearray(), 0
        for piece in self._pieces:
            waiting += piece
            if len(waiting) >= PIECE_BYTES:
                size += len(waiting)
                self._add(waiting)
                waiting = bytearray()
                if size >= READ_AHEAD_BYTES:
                    return
        self._add(waiting)
        payload = self._deflated.end()
        self._check_size()
        attributes = self._header.attributes & (TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT) | self._target.compression
        self.batch = pack_batch(msgspec.structs.replace(self._header, attributes=attributes), payload)

    def _add(self, data: bytearray) -> None:
        if data:
            self._deflated.add(data)
            self._check_size()

    def _check_size(self) -> None:
        if HEADER_BYTES + self._deflated.deflated_bytes > self._limit_bytes:
            raise KafkaError(
                Code.MESSAGE_TOO_LARGE,
                f"the batch is larger than {self._limit_bytes} bytes after compression with the topic's compression.type",
            )


async def recompress(
    batch: Buffer, header: BatchHeader, target: CompressionTarget, inflated_bytes: int, limit_bytes: int
) -> tuple[memoryview, BatchHeader]:
    """Return the batch with another compression, and its header. A large payload is compressed in a worker thread.

    ``inflated_bytes`` is the size of the decompressed payload, known from the check of the records. Raises MESSAGE_TOO_LARGE if the
    result would have more than ``limit_bytes``. ``batch`` must not change meanwhile.
    """
    work = _Recompression(batch, header, target, inflated_bytes, limit_bytes)
    while work.batch is None:
        if inflated_bytes <= AT_ONCE_BYTES:
            work.go_on()
        else:
            await in_thread(work.go_on)
    return memoryview(work.batch), read_header(work.batch)
