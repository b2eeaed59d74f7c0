"""Recompresses batches of Produce for topics with a ``compression.type``.

The compressors are imported when first used, because most topics do not need them, and the import would slow down every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.limits.inflating import InflatingMemory
from ottla.protocol.inflating import memory_bytes as inflating_bytes
from ottla.protocol.records import GZIP, HEADER_BYTES, LZ4, SNAPPY, ZSTD, BatchHeader
from ottla.storage.config import AS_PRODUCED, LogConfig

if TYPE_CHECKING:
    from ottla.protocol.recompressing import CompressionTarget

_NUMBERS = {"uncompressed": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


class Ports(Protocol):
    inflating: InflatingMemory


def target_of(config: LogConfig, header: BatchHeader) -> CompressionTarget | None:
    """The compression with which to store a batch; None if the batch is stored unchanged (BrokerCompressionType).

    As in Kafka, a batch that already has the topic's compression type is stored unchanged, even with another level.
    """
    if config.compression_type == AS_PRODUCED:
        return None
    from ottla.protocol.recompressing import CompressionTarget

    number = _NUMBERS[config.compression_type]
    if number == header.compression:
        return None
    levels = {GZIP: config.compression_gzip_level, LZ4: config.compression_lz4_level, ZSTD: config.compression_zstd_level}
    return CompressionTarget(number, levels.get(number))


async def recompressed(
    ports: Ports, batch: memoryview, header: BatchHeader, target: CompressionTarget, inflated_bytes: int, limit_bytes: int
) -> tuple[memoryview, BatchHeader]:
    """Return the batch and its header with another compression (`recompress`). Waits for memory from the budget of all requests."""
    from ottla.protocol.recompressing import memory_bytes, recompress

    needed_bytes = memory_bytes(target, inflated_bytes, limit_bytes)
    needed_bytes += inflating_bytes(batch[HEADER_BYTES:], header.compression)
    await ports.inflating.take(needed_bytes)
    try:
        return await recompress(batch, header, target, inflated_bytes, limit_bytes)
    finally:
        ports.inflating.give(needed_bytes)
