"""Undocumented behaviour of other packages on which ottla relies. These tests fail if a new version of a package changes it."""

from __future__ import annotations

from aiokafka.record import default_records
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder


def test_aiokafka_uses_its_compiled_record_codec() -> None:
    """aiokafka's pure Python codec is fifty times slower, and ottla uses the codec to check every record of a client."""
    assert DefaultRecordBatch is not default_records._DefaultRecordBatchPy
    assert DefaultRecordBatchBuilder is not default_records._DefaultRecordBatchBuilderPy


def test_aiokafka_record_codec_round_trips() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=1, producer_id=5, producer_epoch=6, base_sequence=7, batch_size=1 << 20
    )
    builder.append(0, 1_000, b"k", None, [("h", b"v")])
    builder.append(1, 1_001, None, b"v", [])
    records = list(DefaultRecordBatch(bytes(builder.build())))
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records] == [
        (0, 1_000, b"k", None, [("h", b"v")]),
        (1, 1_001, None, b"v", []),
    ]
