"""Reading the records of all batches in a log, in bounded memory."""

from __future__ import annotations

import tracemalloc

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import ZSTD, build_batch, compress, read_header, read_records
from ottla.storage.reading import records_of
from tests.support.batches import batch, record
from tests.support.logs import NOW_MS

MIB = 1 << 20


@pytest.mark.parametrize("codec", range(5))
def test_records_of_any_size_and_compression_are_read_from_a_batch(codec: int) -> None:
    pairs = [(b"a", b"1"), (None, b"v" * MIB), (b"k" * 400_000, None), (b"z", b"")] + [(b"k", b"v")] * 3_000
    raw = bytes(build_batch(pairs, NOW_MS, compression=codec))
    assert list(records_of(raw, read_header(raw))) == read_records(raw)
    small = bytes(build_batch(pairs[:1], NOW_MS, compression=codec))
    assert list(records_of(small, read_header(small))) == read_records(small)


@pytest.mark.smoke
def test_compressed_batch_is_read_in_bounded_memory() -> None:
    many = bytes(build_batch([(b"k", bytes(1_000))] * 20_000, NOW_MS, compression=ZSTD))
    tracemalloc.start()
    assert sum(1 for _ in records_of(many, read_header(many))) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    tracemalloc.stop()
    bomb = batch(compress(record(value=bytes(65 * MIB)), ZSTD), attributes=ZSTD)
    with pytest.raises(KafkaError) as refused:
        list(records_of(bomb, read_header(bomb)))
    assert refused.value.code is Code.CORRUPT_MESSAGE
