"""Rows encoded as record batches are decoded to the same rows, by aiokafka and by the segment source's decoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from ottla.protocol.primitives import uvarint
from ottla.protocol.records import crc_is_valid, read_header
from ottla.spark.errors import PipelineError
from ottla.spark.rows.encoding import Encoded, PartitionRows, ProducerIdentity, Unsequenced, encode, varints
from ottla.spark.segments.columns import HEADERS
from ottla.spark.sink.row_writing import _headers as by_driver

TIMESTAMP_MS = 1_700_000_000_000
blob = st.none() | st.binary(max_size=200)
row = st.tuples(blob, blob, st.none() | st.lists(st.tuples(st.text(max_size=5), blob), max_size=3))


def columns(rows: list[Any]) -> pa.RecordBatch:
    headers = [None if pairs is None else [{"key": k, "value": v} for k, v in pairs] for _, _, pairs in rows]
    arrays = [pa.array([r[0] for r in rows], pa.binary()), pa.array([r[1] for r in rows], pa.binary()), pa.array(headers, HEADERS)]
    return pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers"])


def sequenced(batches: Iterable[Unsequenced], sequence: int = 0) -> list[Encoded]:
    """Give the batches of one partition their sequences."""
    found = []
    for batch in batches:
        found.append(batch.at(sequence))
        sequence += batch.records
    return found


def decoded(batches: list[Encoded]) -> list[Any]:
    return [(r.key, r.value, list(r.headers)) for batch in batches for r in DefaultRecordBatch(batch.data)]


@pytest.mark.heavy
@settings(max_examples=150)
@given(st.lists(row, min_size=1, max_size=60), st.integers(0, 4), st.integers(100, 2_000), st.data())
def test_rows_encoded_as_record_batches_round_trip(rows: list[Any], codec: int, batch_bytes: int, data: Any) -> None:
    whole = columns(rows)
    start = data.draw(st.integers(0, len(rows) - 1))
    # A slice of an Arrow array has its own offsets into the buffers of the whole array.
    encoded = encode(whole.slice(start), ProducerIdentity(7, 3, codec), [PartitionRows(0)], TIMESTAMP_MS, batch_bytes)
    batches = sequenced(encoded, 40)
    assert decoded(batches) == [(key, value, headers or []) for key, value, headers in rows[start:]]
    sequence = 40
    for batch in batches:
        header = read_header(batch.data)
        assert crc_is_valid(batch.data, header)
        assert (header.base_sequence, header.record_count, batch.sequence) == (sequence, batch.records, sequence)
        assert (header.producer_id, header.producer_epoch, header.is_transactional, header.compression) == (7, 3, True, codec)
        assert {r.timestamp for r in DefaultRecordBatch(batch.data)} == {TIMESTAMP_MS}
        sequence += batch.records


@pytest.mark.heavy
@settings(max_examples=60)
@given(st.lists(row, min_size=1, max_size=60), st.lists(st.integers(1, 59), max_size=6), st.integers(100, 2_000))
def test_encoding_rows_of_several_partitions_together_equals_encoding_each_partition_alone(
    rows: list[Any], cuts: list[int], batch_bytes: int
) -> None:
    whole = columns(rows)
    starts = sorted({0, *(cut for cut in cuts if cut < len(rows))})
    parts = [PartitionRows(start) for start in starts]
    who = ProducerIdentity(7, 3, 0)
    together = list(encode(whole, who, parts, TIMESTAMP_MS, batch_bytes))
    for number, (part, end) in enumerate(zip(parts, [*starts[1:], len(rows)], strict=True)):
        piece = whole.slice(part.start, end - part.start)
        alone = list(encode(piece, who, [PartitionRows(0)], TIMESTAMP_MS, batch_bytes))
        mine = [batch for batch in together if batch.part == number]
        assert [b.at(100) for b in mine] == [b.at(100) for b in alone]


@pytest.mark.parametrize("size", [90, 300])
def test_encoded_record_batches_are_filled_up_to_the_size_limit(size: int) -> None:
    rows: list[Any] = [(b"k", b"v" * size, [])] * 100
    batches = sequenced(encode(columns(rows), ProducerIdentity(1, 0, 0), [PartitionRows(0)], 1, 1_000))
    assert {batch.records for batch in batches[:-1]} == {1_000 // (size + 27)}
    assert max(len(batch.data) for batch in batches) <= 1_061
    alone = list(encode(columns([(b"k", b"v" * 5_000, [])] * 3), ProducerIdentity(1, 0, 0), [PartitionRows(0)], 1, 1_000))
    assert [batch.records for batch in alone] == [1, 1, 1]


@pytest.mark.heavy
@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1))
def test_vectorized_varints_equal_the_scalar_encoding(values: list[int]) -> None:
    assert varints(np.array(values, np.int64)).to_pylist() == [uvarint((v << 1) ^ (v >> 63)) for v in values]


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"v"}], ids=["no header", "no key"])
def test_record_header_without_a_key_is_reported(header: Any) -> None:
    """If the header were sent, the broker would only answer that the batch is corrupt."""
    arrays = [pa.array([b"k"], pa.binary()), pa.array([b"v"], pa.binary()), pa.array([[header]], HEADERS)]
    rows = pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers"])
    with pytest.raises(PipelineError, match="column 'headers' has a header that is null, or has no key"):
        list(encode(rows, ProducerIdentity(1, 0, 0), [PartitionRows(0)], 1, 1_000))
    with pytest.raises(PipelineError, match="column 'headers'"):
        by_driver([None if header is None else Row(**header)])
    assert by_driver([Row(key="k", value=None)]) == [("k", None)]
    assert by_driver(None) == []
