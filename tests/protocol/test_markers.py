"""Reading markers from unusual control batches: compressed batches and decompression bombs."""

from __future__ import annotations

import tracemalloc

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import SNAPPY_BLOCK_BYTES
from ottla.protocol.markers import MAX_CONTROL_BYTES, read_marker
from ottla.protocol.records import CONTROL_BIT, GZIP, LZ4, SNAPPY, TRANSACTIONAL_BIT, ZSTD, build_batch, read_header

COMMIT_KEY, COMMIT_VALUE = b"\0\0\0\1", b"\0\0\0\0\0\7"


def control_batch(compression: int, value: bytes = COMMIT_VALUE) -> bytes:
    batch = build_batch([(COMMIT_KEY, value)], 1, producer_id=5, producer_epoch=2, transactional=True, compression=compression)
    batch[21:23] = (int.from_bytes(batch[21:23], "big") | CONTROL_BIT | TRANSACTIONAL_BIT).to_bytes(2, "big")
    return bytes(batch)


@pytest.mark.parametrize("compression", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_marker_in_a_compressed_control_batch_is_read(compression: int) -> None:
    batch = control_batch(compression)
    marker = read_marker(batch, read_header(batch))
    assert marker is not None
    assert (marker.producer_id, marker.producer_epoch, marker.commit, marker.coordinator_epoch) == (5, 2, True, 7)


@pytest.mark.parametrize("compression", [GZIP, SNAPPY, LZ4, ZSTD])
def test_control_batch_that_is_a_decompression_bomb_is_refused(compression: int) -> None:
    batch = control_batch(compression, bytes(16 << 20))
    header = read_header(batch)

    tracemalloc.start()
    try:
        with pytest.raises(KafkaError, match=r"has more than .* decompressed bytes") as refused:
            read_marker(batch, header)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.code == Code.CORRUPT_MESSAGE
    # Snappy has no streaming format: a block is decompressed as a whole.
    assert peak < (SNAPPY_BLOCK_BYTES if compression == SNAPPY else 32 * MAX_CONTROL_BYTES)
