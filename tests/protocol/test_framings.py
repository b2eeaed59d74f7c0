"""Compression framings that differ between clients, and header keys that are not valid UTF-8."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from ottla.client.records.record import decode_batch
from ottla.protocol import gzip_members, lz4_frames
from ottla.protocol.deflating import Deflated
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.header_keys import with_readable_headers
from ottla.protocol.inflating import memory_bytes, pieces
from ottla.protocol.record_stream import zigzag
from ottla.protocol.records import LZ4, ZSTD, compress, read_header
from ottla.protocol.steps import run
from ottla.protocol.zstd import zstd
from ottla.storage.reading import records_of
from tests.protocol.test_validation import BOTH, NOW_MS, STEP, Check, at_once, in_steps, refused, rules
from tests.support.batches import batch, record, varint
from tests.support.counting import Meter, check_best, run_steps
from tests.support.framings import FRAMINGS, framed, gzip_member

ANY_TIME = rules(earliest_ms=-(1 << 60), latest_ms=1 << 60)
LATIN_1 = b"stra\xdfe"


def outcome(check: Check, raw: bytes) -> Code:
    try:
        check(raw, ANY_TIME)
    except KafkaError as error:
        return error.code
    return Code.NONE


@pytest.mark.parametrize("name", FRAMINGS)
def test_one_shot_and_streaming_record_checks_agree_on_every_compression_format(name: str) -> None:
    raw = framed(name)
    in_short = outcome(at_once, raw)
    if in_short is not Code.NONE or at_once(raw, ANY_TIME) is not None:
        assert in_short is outcome(in_steps, raw)


def test_error_for_linked_lz4_blocks_names_the_cause() -> None:
    error = refused(at_once, framed("lz4/linked"), ANY_TIME)
    assert error.code is Code.CORRUPT_MESSAGE
    assert "Java clients cannot read" in (error.message or "")


def test_stored_batch_with_linked_lz4_blocks_is_readable() -> None:
    assert len(b"".join(pieces(memoryview(FRAMINGS["lz4/linked"][1]), LZ4))) == len(
        b"".join(pieces(memoryview(FRAMINGS["lz4/independent"][1]), LZ4))
    )


def test_lz4_batch_written_by_ottla_is_readable_by_java() -> None:
    deflated = Deflated(LZ4)
    for _ in range(3):
        deflated.add(b"0123456789" * 10_000)
    for frame in (deflated.end(), Deflated(LZ4).end(), compress(b"0123456789" * 10_000, LZ4)):
        lz4_frames.check_header(memoryview(frame))
        assert lz4_frames.is_one_frame(memoryview(frame))


def members(payload: bytes) -> bytes:
    return b"".join(gzip_members.inflated(memoryview(payload), 100, 50))


def test_gzip_payload_with_several_members_is_decompressed() -> None:
    assert members(gzip_member(b"a" * 1_000) + gzip_member(b"") + gzip_member(b"b" * 1_000)) == b"a" * 1_000 + b"b" * 1_000
    assert members(gzip_member(b"a", 8, b"n" * 1_000 + b"\0")) == b"a"


@pytest.mark.parametrize("cut", range(25))
def test_truncated_gzip_payload_is_refused_at_any_byte(cut: int) -> None:
    whole = gzip_member(
        b"a", 2 | 4, b"\2\0xx" + (zlib.crc32(gzip_member(b"a", 2 | 4, b"\2\0xx")[:14]) & 0xFFFF).to_bytes(2, "little")
    )
    assert members(whole) == b"a"
    with pytest.raises((ValueError, zlib.error)):
        members(whole[:cut])


def test_largest_zstd_window_is_accepted() -> None:
    def windowed(log: int) -> bytes:
        stream = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
        return bytes(stream.compress(b"a" * 10) + stream.compress(b"b" * 10) + stream.flush())

    small = memory_bytes(memoryview(windowed(10)), ZSTD)
    assert memory_bytes(memoryview(windowed(10) + windowed(25)), ZSTD) - small >= 1 << 24
    assert memory_bytes(memoryview(windowed(10) * 3), ZSTD) == small
    assert memory_bytes(memoryview(windowed(10) * 1_000), ZSTD) > 1 << 27


def headers(*pairs: tuple[bytes, bytes | None]) -> bytes:
    return varint(len(pairs)) + b"".join(
        varint(len(key)) + key + (varint(-1) if value is None else varint(len(value)) + value) for key, value in pairs
    )


@BOTH
@pytest.mark.parametrize("key", [LATIN_1, b"\xed\xa0\x80", b"\xff"])
def test_record_header_keys_may_have_any_bytes(check: Check, key: bytes) -> None:
    raw = batch(record() + record(delta=1, headers=headers((b"a", None), (key, b"x"))), count=2, timestamp_ms=NOW_MS)
    assert check(raw, rules()) in (NOW_MS, None)
    assert in_steps(raw, rules()) == NOW_MS
    bad = batch(record(headers=headers((key, b"x"))) + record(delta=1, key=None), count=2, timestamp_ms=NOW_MS)
    assert refused(in_steps, bad, rules(keys_wanted=True)).code is Code.INVALID_RECORD


def broken() -> Iterator[bytes]:
    good = headers((LATIN_1, b"x"))
    yield record(headers=good) + record(delta=1, tail=b"xyz")
    yield record(headers=good) + record(delta=1, headers=varint(2) + good[1:])
    yield record(headers=good) + record(delta=1, headers=varint(-1))
    yield record(headers=good) + record(delta=1, headers=varint(1) + varint(-1) + varint(0))
    yield record(headers=good) + record(delta=1, key_length=500)
    yield record(headers=good) + record(delta=2)


@pytest.mark.parametrize("records", list(broken()))
def test_records_after_an_invalid_utf8_header_key_are_checked(records: bytes) -> None:
    assert refused(in_steps, batch(records, count=2, timestamp_ms=NOW_MS), rules()).code is Code.INVALID_RECORD


def test_invalid_utf8_record_header_keys_are_decoded_like_in_java() -> None:
    pairs = ((b"a", b"1"), (LATIN_1, b"x"), (b"n" * 200, None))
    raw = batch(record() + record(delta=1, headers=headers(*pairs)) + record(delta=2, headers=headers(*pairs)), count=3)
    decoded = decode_batch("t", 0, raw, read_header(raw))
    wanted = [("a", b"1"), ("stra\ufffde", b"x"), ("n" * 200, None)]
    assert [(r.offset, r.headers) for r in decoded] == [(0, []), (1, wanted), (2, wanted)]
    assert [(r.offset, r.key) for r in records_of(raw, read_header(raw))] == [(0, b"k"), (1, b"k"), (2, b"k")]


def test_records_with_valid_header_keys_are_unchanged() -> None:
    records = record(headers=headers((b"a", b"1"), (b"", None))) + record(delta=1, key=None, value=None)
    assert run(with_readable_headers(records, keeps_headers=True)) == records


def test_check_of_many_invalid_header_keys_blocks_the_event_loop_briefly(meter: Meter) -> None:
    pair = zigzag(1) + b"\xff" + zigzag(-1)
    raw = batch(record(headers=varint(20_000) + pair * 20_000), timestamp_ms=NOW_MS)
    header = read_header(raw)

    def attempt(_: int) -> None:
        run_steps(meter, with_readable_headers(raw[61:], keeps_headers=False))

    assert header.record_count == 1
    check_best(meter, STEP, attempt)
