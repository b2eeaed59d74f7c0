"""Record batches: checks of batches from clients, transaction markers, and changes to fields of the batch header."""

from __future__ import annotations

from struct import pack_into

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.records import (
    CRC_START,
    EndTxnMarker,
    advance_sequence,
    assign,
    batches,
    build_batch,
    build_marker,
    check_produced,
    crc_is_valid,
    read_header,
    read_records,
    stamp_append_time,
)

NOW_MS = 1_700_000_000_000


def batch(count: int = 3, **options: object) -> bytearray:
    return build_batch([(b"k%d" % i, b"v%d" % i) for i in range(count)], NOW_MS, **options)  # type: ignore[arg-type]


def sealed(raw: bytearray) -> bytearray:
    """Write a new CRC into a changed batch and return the batch."""
    from crc32c import crc32c

    pack_into(">I", raw, 17, crc32c(memoryview(raw)[CRC_START:]))
    return raw


def test_valid_record_batch_is_accepted() -> None:
    header = check_produced(batch(3, producer_id=7, producer_epoch=1, base_sequence=5))
    assert (header.record_count, header.last_offset_delta, header.producer_id, header.last_sequence) == (3, 2, 7, 7)


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_records_of_every_compression_are_read(compression: int) -> None:
    raw = batch(4, compression=compression)
    assert [(r.offset, r.key, r.value) for r in read_records(raw)] == [(i, b"k%d" % i, b"v%d" % i) for i in range(4)]


def changed(at: int, fmt: str, value: int) -> bytearray:
    raw = batch(3, producer_id=7, producer_epoch=1, base_sequence=5)
    pack_into(fmt, raw, at, value)
    return sealed(raw)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(bytearray(), Code.INVALID_RECORD, id="nothing"),
        pytest.param(batch() + batch(), Code.INVALID_RECORD, id="two batches"),
        pytest.param(batch()[:-1], Code.INVALID_RECORD, id="cut off"),
        pytest.param(changed(16, ">b", 0), Code.INVALID_RECORD, id="magic 0"),
        pytest.param(changed(16, ">b", 1), Code.INVALID_RECORD, id="magic 1"),
        pytest.param(changed(16, ">b", 3), Code.CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(changed(8, ">i", -1), Code.CORRUPT_MESSAGE, id="negative length"),
        pytest.param(changed(21, ">h", 0x20), Code.INVALID_RECORD, id="control"),
        pytest.param(changed(21, ">h", 0x07), Code.INVALID_RECORD, id="unknown compression"),
        pytest.param(changed(57, ">i", 4), Code.INVALID_RECORD, id="count too large"),
        pytest.param(changed(57, ">i", 0), Code.INVALID_RECORD, id="count 0"),
        pytest.param(changed(23, ">i", 5), Code.INVALID_RECORD, id="last offset delta off"),
        pytest.param(changed(53, ">i", -5), Code.INVALID_RECORD, id="negative sequence"),
    ],
)
def test_invalid_record_batch_is_refused_with_its_error_code(raw: bytearray, code: Code) -> None:
    with pytest.raises(KafkaError) as refused:
        check_produced(raw)
    assert refused.value.code is code


def test_batch_with_a_wrong_crc_is_refused_as_corrupt_message() -> None:
    raw = batch()
    raw[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        check_produced(raw)
    assert refused.value.code is Code.CORRUPT_MESSAGE


def test_zstd_batch_is_refused_where_the_produce_version_does_not_allow_zstd() -> None:
    raw = batch(compression=4)
    check_produced(raw)
    with pytest.raises(KafkaError) as refused:
        check_produced(raw, zstd_allowed=False)
    assert refused.value.code is Code.UNSUPPORTED_COMPRESSION_TYPE


def test_assigning_offset_and_leader_epoch_keeps_the_batch_crc_valid() -> None:
    raw = batch()
    assign(raw, 1234, 5)
    header = read_header(raw)
    assert (header.base_offset, header.leader_epoch) == (1234, 5)
    assert crc_is_valid(raw, header)


def test_log_append_time_replaces_batch_timestamps_and_crc() -> None:
    raw = batch()
    stamp_append_time(raw, NOW_MS + 77)
    header = read_header(raw)
    assert header.max_timestamp_ms == NOW_MS + 77
    assert crc_is_valid(raw, header)
    assert {r.timestamp_ms for r in read_records(raw)} == {NOW_MS + 77}


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_marker_round_trips(commit: bool) -> None:
    marker = EndTxnMarker(4242, 7, commit, 3)
    raw = build_marker(marker, NOW_MS)
    header = read_header(raw)
    assert crc_is_valid(raw, header)
    assert (header.is_control, header.is_transactional, header.base_sequence, header.record_count) == (True, True, -1, 1)
    assert read_marker(raw, header) == marker
    (record,) = list(DefaultRecordBatch(bytes(raw)))
    assert (record.key, record.value) == (b"\0\0\0" + bytes([commit]), b"\0\0\0\0\0\3")


def test_iteration_over_batches_ends_before_an_incomplete_batch() -> None:
    whole = bytes(batch(1) + batch(2))
    assert [h.record_count for _, h in batches(whole)] == [1, 2]
    assert [h.record_count for _, h in batches(whole[:-1])] == [1]


@pytest.mark.parametrize(("sequence", "by", "expected"), [(0, 4, 4), (0x7FFFFFFF, 1, 0), (0x7FFFFFFD, 4, 1), (5, 0, 5)])
def test_producer_sequence_numbers_wrap_around(sequence: int, by: int, expected: int) -> None:
    assert advance_sequence(sequence, by) == expected


def test_batch_with_an_undecodable_payload_is_refused_as_corrupt_message() -> None:
    raw = batch(3, compression=1)
    raw[70:75] = b"\xff" * 5
    with pytest.raises(KafkaError) as refused:
        read_records(raw)
    assert refused.value.code is Code.CORRUPT_MESSAGE
