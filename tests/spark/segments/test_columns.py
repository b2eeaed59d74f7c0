"""Records as columns: they equal aiokafka's decoding, and invalid bytes give no records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.records import BatchHeader, read_header, renew_crc, stamp_append_time
from ottla.spark.segments import columns
from ottla.spark.segments.columns import Malformed, Records

pytestmark = pytest.mark.heavy

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

blob = st.none() | st.binary(max_size=300)
header = st.tuples(st.text(max_size=5), blob)
record = st.tuples(st.integers(-5, 1 << 45), blob, blob, st.lists(header, max_size=4))
batch = st.tuples(st.integers(0, 4), st.booleans(), st.lists(record, min_size=1, max_size=40))


def built(base_offset: int, codec: int, rows: list[Any], *, is_append_time: bool = False) -> tuple[BatchHeader, memoryview]:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for at, (timestamp, key, value, headers) in enumerate(rows):
        builder.append(at, timestamp, key, value, headers)
    raw = builder.build()
    raw[0:8] = base_offset.to_bytes(8, "big")
    if is_append_time:
        stamp_append_time(raw, 12345)
    return read_header(raw), memoryview(bytes(raw))


def rows_of(records: Records, kept: Any = None) -> list[Row]:
    chosen = np.arange(len(records)) if kept is None else kept
    lists = records.headers(chosen)
    assert lists.null_count == 0
    headers = [[(h["key"], h["value"]) for h in pairs] for pairs in lists.to_pylist()]
    numbers = [records.offsets[chosen].tolist(), records.timestamps_ms[chosen].tolist()]
    return list(zip(*numbers, records.keys(chosen).to_pylist(), records.values(chosen).to_pylist(), headers, strict=True))


def decoded(raw: memoryview) -> list[Row]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in DefaultRecordBatch(bytes(raw))]


@pytest.fixture(params=[1, 1000], ids=["abreast", "one by one"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with the decoding of many batches at once, and with the decoding of single batches."""
    with mock.patch.object(columns, "ABREAST", request.param):
        yield


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(batch, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_columns_decoded_from_a_segment_batch_equal_its_records(batches: list[Any], rng: Any) -> None:
    built_batches, at = [], 7
    for codec, is_append_time, rows in batches:
        built_batches.append(built(at, codec, rows, is_append_time=is_append_time))
        at += len(rows)
    expected = [row for _, raw in built_batches for row in decoded(raw)]
    records = Records(built_batches)
    assert rows_of(records) == expected
    kept = np.array(sorted(rng.sample(range(len(expected)), rng.randrange(len(expected) + 1))), np.int64)
    assert rows_of(records, kept) == [expected[n] for n in kept]
    types = [int(appended) for _, appended, rows in batches for _ in rows]
    assert records.timestamp_types.tolist() == types


def test_records_with_three_byte_sizes_are_decoded() -> None:
    rows = [(1, b"k" * 20_000, b"v" * 3_000_000, []), (2, None, b"", [("h", b"x" * 70_000)])]
    large = built(0, 0, rows)
    small = built(2, 0, [(1, b"k", b"v" * n, []) for n in (0, 50, 51, 52, 53, 54, 8_100, 8_191, 8_192, 16_384)])
    assert rows_of(Records([large, small])) == [*decoded(large[1]), *decoded(small[1])]


def test_batch_with_compaction_gaps_is_decoded() -> None:
    """After compaction, a record's offset comes from its offset delta and not from its position."""
    whole = built(100, 0, [(1, b"a", b"1", []), (2, b"b", b"2", [])])
    raw = bytearray(whole[1])
    # One record with offset delta 5 replaces two records.
    record = bytes((0x10, 0, 0, 0x0A, 0x02, ord("a"), 0x02, ord("1"), 0))
    raw[61:] = record
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[57:61] = (1).to_bytes(4, "big")
    renew_crc(raw)
    assert rows_of(Records([(read_header(raw), memoryview(bytes(raw)))])) == [(105, 1, b"a", b"1", [])]


def spoilt(change: dict[int, int], count: int | None = None) -> tuple[BatchHeader, memoryview]:
    raw = bytearray(built(0, 0, [(1, b"key", b"value", [("h", b"x")])] * 3)[1])
    for at, byte in change.items():
        raw[61 + at] = byte
    if count is not None:
        raw[57:61] = count.to_bytes(4, "big")
    return read_header(raw), memoryview(bytes(raw))


@pytest.mark.parametrize(
    ("change", "count", "says"),
    [
        ({0: 0x7E}, None, "longer than the batch"),
        ({0: 0x02}, None, "bytes after its records|longer"),
        ({}, 2, "bytes after its records"),
        ({}, 4, "longer than the batch"),
        ({4: 0x7E}, None, "longer than its record"),
        ({0: 0xFF, 1: 0xFF, 2: 0xFF, 3: 0xFF, 4: 0xFF, 5: 0xFF, 6: 0xFF}, None, "more than 2 GiB"),
        ({2: 0xFF, 3: 0xFF, 4: 0xFF, 5: 0xFF, 6: 0xFF, 7: 0xFF, 8: 0xFF, 9: 0xFF, 10: 0xFF, 11: 0xFF, 12: 0xFF}, None, "ten bytes"),
    ],
)
def test_malformed_records_in_segments_are_refused(change: dict[int, int], count: int | None, says: str) -> None:
    sound = built(10, 0, [(1, b"k", b"v", [])] * 5)
    for others in ([], [sound] * 3):
        with pytest.raises(Malformed, match=says):
            Records([*others, spoilt(change, count), *others])


@pytest.mark.parametrize("count", [0x7E, 0x01])
def test_malformed_record_headers_in_segments_are_refused(count: int) -> None:
    records = Records([spoilt({14: count})])
    with pytest.raises(Malformed):
        records.headers(np.arange(3))


def test_invalid_utf8_in_a_record_header_name_is_replaced() -> None:
    (first, *_) = rows_of(Records([spoilt({16: 0xFF})]))
    assert first[4] == [("\ufffd", b"x")]


def test_segment_batch_that_cannot_be_decompressed_is_refused() -> None:
    _, raw = built(0, 3, [(1, b"k", b"v" * 100, [])])
    broken = bytearray(raw)
    broken[61:65] = b"none"
    with pytest.raises(Malformed, match="cannot be decompressed"):
        Records([(read_header(broken), memoryview(bytes(broken)))])


def test_decompressed_size_of_segment_batches_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    _, raw = built(0, 3, [(1, b"k", b"v" * 100_000, [])])
    monkeypatch.setattr("ottla.spark.segments.columns.MAX_PAYLOAD_BYTES", 99_000)
    with pytest.raises(Malformed, match="inflates to more than is allowed"):
        Records([(read_header(raw), memoryview(bytes(raw)))])


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_in_a_segment_batch_are_refused_without_a_crash(data: Any) -> None:
    """The CRC of each changed batch is right, so the decoder returns rows or raises `Malformed`, whatever byte is changed."""
    _, raw = built(0, 0, [(1, b"key", b"value", [("h", b"x")]), (2, None, b"v", [])])
    at = data.draw(st.integers(61, len(raw) - 1))
    changed = bytearray(raw)
    changed[at] = data.draw(st.integers(0, 255))
    beside = built(10, 0, [(1, b"k", b"v", [])] * 3)
    with suppress(Malformed):
        rows_of(Records([(read_header(changed), memoryview(bytes(changed))), beside]))
