"""Validation of records from clients: the checks, their order, and the time and memory that they take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from ottla.protocol import record_stream
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import Allowance, pieces
from ottla.protocol.record_stream import LARGE_RECORD_BYTES, RecordStream, zigzag
from ottla.protocol.records import TIMESTAMP_TYPE_BIT, build_batch, compress, read_header
from ottla.protocol.steps import Steps, run
from ottla.protocol.validation import BLAMED_AT_ONCE, RecordsRefused, Rules, check_in_steps, check_records
from tests.support.batches import batch, record, varint
from tests.support.counting import Limit, Meter, check_best, run_steps

NOW_MS = 1_700_000_000_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD], ids=["none", "gzip", "snappy", "lz4", "zstd"])
MIB = 1 << 20
LIMIT_BYTES = 1 << 30
STEP = Limit(lines=75_000, ms=10)


def rules(**changed: Any) -> Rules:
    values = {
        "partition": "t-0",
        "keys_wanted": False,
        "is_append_time": False,
        "earliest_ms": NOW_MS - 10_000,
        "latest_ms": NOW_MS + 10_000,
    }
    return Rules(**(values | changed))


def packed(records: list[bytes], codec: int = NONE, *, count: int | None = None, attributes: int = 0) -> bytes:
    payload = compress(b"".join(records), codec)
    return batch(payload, count=len(records) if count is None else count, attributes=codec | attributes, timestamp_ms=NOW_MS)


def at_once(raw: bytes, wanted: Rules, limit_bytes: int = LIMIT_BYTES) -> int | None:
    return check_records(raw, read_header(raw), wanted, Allowance(limit_bytes))


def in_steps(raw: bytes, wanted: Rules, limit_bytes: int = LIMIT_BYTES) -> int | None:
    header, allowance = read_header(raw), Allowance(limit_bytes)
    stream = RecordStream(raw, header, allowance, max_record_bytes=wanted.max_record_bytes)
    return run(check_in_steps(raw, header, wanted, allowance, stream))


Check = Callable[..., int | None]
BOTH = pytest.mark.parametrize("check", [at_once, in_steps])


def refused(check: Check, raw: bytes, wanted: Rules, limit_bytes: int = LIMIT_BYTES) -> KafkaError:
    with pytest.raises(KafkaError) as error:
        check(raw, wanted, limit_bytes)
    return error.value


def blamed(error: KafkaError) -> list[int]:
    assert isinstance(error, RecordsRefused)
    return [e.batch_index for e in error.errors]


@BOTH
@CODECS
def test_batch_with_records_without_a_key_is_refused_if_keys_are_required(check: Check, codec: int) -> None:
    raw = packed([record(delta=i, key=None if i in (1, 3) else b"k") for i in range(5)], codec)
    assert check(raw, rules()) == NOW_MS
    error = refused(check, raw, rules(keys_wanted=True))
    assert error.code is Code.INVALID_RECORD
    assert blamed(error) == [1, 3]
    assert "rejected due to 2 record errors" in (error.message or "")


@BOTH
@CODECS
def test_record_timestamps_out_of_range_are_reported(check: Check, codec: int) -> None:
    """The timestamp of each record is checked, not the maximum timestamp in the batch header."""
    deltas = [0, -20_000, 5, 20_000, 10_000]
    raw = packed([record(delta=i, timestamp_delta_ms=d) for i, d in enumerate(deltas)], codec)
    error = refused(check, raw, rules())
    assert error.code is Code.INVALID_TIMESTAMP
    assert blamed(error) == [1, 3]
    assert check(raw, rules(is_append_time=True)) == NOW_MS + 20_000
    assert check(raw, rules(earliest_ms=0, latest_ms=1 << 62)) == NOW_MS + 20_000


@BOTH
def test_batch_with_missing_key_and_invalid_timestamp_is_refused_with_invalid_timestamp(check: Check) -> None:
    raw = packed([record(), record(delta=1, key=None, timestamp_delta_ms=20_000), record(delta=2, timestamp_delta_ms=20_000)])
    error = refused(check, raw, rules(keys_wanted=True))
    assert isinstance(error, RecordsRefused)
    assert error.code is Code.INVALID_TIMESTAMP
    assert ["without key" in e.message for e in error.errors] == [True, False]


@BOTH
def test_missing_record_timestamp_is_never_out_of_range(check: Check) -> None:
    raw = batch(record() + record(delta=1), count=2, timestamp_ms=-1)
    assert check(raw, rules()) == -1


@BOTH
def test_produced_batch_with_log_append_time_is_refused(check: Check) -> None:
    raw = packed([record(), record(delta=1)], attributes=TIMESTAMP_TYPE_BIT)
    assert check(raw, rules()) == NOW_MS
    error = refused(check, raw, rules(is_append_time=True))
    assert (error.code, blamed(error)) == (Code.INVALID_TIMESTAMP, [0, 1])


@CODECS
def test_one_shot_and_streaming_record_checks_agree_on_random_batches(codec: int) -> None:
    random = Random(codec)
    for _ in range(100):
        size = random.choice([0, 3, 200, 70_000])
        records = [
            record(
                delta=i if random.random() < 0.99 else i + 1,
                key=random.choice([None, b"", b"k" * random.randrange(300)]) if random.random() < 0.3 else b"k",
                value=random.choice([None, random.randbytes(random.randrange(size + 1))]),
                timestamp_delta_ms=random.choice([0, 0, 0, 1, 10_000, 10_001]),
                tail=b"x" if random.random() < 0.01 else b"",
            )
            for i in range(random.randrange(1, 12))
        ]
        raw = bytearray(packed(records, codec, count=max(1, len(records) + random.choice([0, 0, 0, 0, 1, -1]))))
        if random.random() < 0.2:
            raw[random.randrange(61, len(raw))] ^= 1 << random.randrange(8)
        outcomes = []
        for check in (at_once, in_steps):
            try:
                outcomes.append((check(bytes(raw), rules(keys_wanted=True)), None, None))
            except KafkaError as error:
                # A batch may have two faults. The one-shot and the streaming check may find different faults first.
                code = Code.INVALID_RECORD if error.code is Code.CORRUPT_MESSAGE else error.code
                outcomes.append((None, code, [e.batch_index for e in getattr(error, "errors", [])]))
        if outcomes[0] != (None, None, None):
            assert outcomes[0] == outcomes[1]


@CODECS
@pytest.mark.parametrize("key_bytes", [1, LARGE_RECORD_BYTES + 1])
def test_large_records_are_checked_without_buffering_them(codec: int, key_bytes: int) -> None:
    header = b"\x02" + zigzag(300) + b"h" * 300 + zigzag(400_000) + b"x" * 400_000
    large = record(delta=1, key=b"k" * key_bytes, value=b"v" * 2 * MIB, headers=header, timestamp_delta_ms=7)
    assert in_steps(packed([record(), large, record(delta=2)], codec), rules(keys_wanted=True)) == NOW_MS + 7
    keyless = record(delta=1, key=None, value=b"v" * 2 * MIB)
    assert blamed(refused(in_steps, packed([record(), keyless], codec), rules(keys_wanted=True))) == [1]
    for bad in (
        record(value=b"v" * MIB, tail=b"x"),
        record(value=b"v" * MIB, headers=zigzag(-1)),
        record(value=b"v" * MIB, headers=zigzag(2**31 - 1)),
        record(value=b"v" * MIB, headers=b"\x02" + zigzag(-1)),
        record(value=b"v" * MIB, value_length=MIB + 50),
        record(value=b"v" * MIB, length=3 * MIB),
        record(value=b"v" * MIB, delta=1),
    ):
        assert refused(in_steps, packed([bad], codec), rules()).code is Code.INVALID_RECORD


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_truncated_batch_payload_is_refused_as_corrupt_message(codec: int) -> None:
    payload = compress(record(value=Random(1).randbytes(300_000)), codec)
    for cut in (1, 5, len(payload) // 2):
        raw = batch(payload[:-cut], attributes=codec, timestamp_ms=NOW_MS)
        assert refused(in_steps, raw, rules()).code in (Code.CORRUPT_MESSAGE, Code.INVALID_RECORD)


@pytest.mark.smoke
@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_batch_payload_beyond_the_decompression_limit_is_refused_as_too_large(codec: int) -> None:
    raw = packed([record(value=bytes(20 * MIB))], codec)
    assert in_steps(raw, rules()) == NOW_MS
    error = refused(in_steps, raw, rules(), 10 * MIB)
    assert error.code is Code.MESSAGE_TOO_LARGE
    assert "ottla.request.inflated.max.bytes" in (error.message or "")


@BOTH
def test_impossible_record_count_of_a_batch_is_refused_before_decoding(check: Check) -> None:
    assert refused(check, packed([record()], count=2**31 - 1), rules()).code is Code.INVALID_RECORD
    assert refused(check, packed([record()], ZSTD, count=2**31 - 1), rules()).code is Code.MESSAGE_TOO_LARGE
    assert refused(check, packed([record()], ZSTD, count=2), rules()).code is Code.INVALID_RECORD


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_many_invalid_records_are_reported_in_steps(codec: int) -> None:
    """Building errors takes several times as long as accepting records, so a check in one call leaves errors to a check in steps.

    Only the check in steps then counts against the decompression limit.
    """
    raw = packed([record(delta=i, key=None) for i in range(BLAMED_AT_ONCE + 1)], codec)
    header, allowance = read_header(raw), Allowance(LIMIT_BYTES)
    assert check_records(raw, header, rules(keys_wanted=True), allowance) is None
    assert allowance.left_bytes == LIMIT_BYTES
    assert check_records(raw, header, rules(), allowance) == NOW_MS


def test_number_of_reported_record_errors_per_batch_is_bounded() -> None:
    raw = packed([record(delta=i, key=None) for i in range(12_000)])
    error = refused(in_steps, raw, rules(keys_wanted=True))
    assert blamed(error) == list(range(10_000))
    assert "due to 12000 record errors" in (error.message or "")


def steps_of(raw: bytes) -> Steps[int | None]:
    header, allowance = read_header(raw), Allowance(LIMIT_BYTES)
    return check_in_steps(raw, header, rules(), allowance, RecordStream(raw, header, allowance))


def peak_bytes(raw: bytes) -> int:
    """Check the batch in steps. Returns the peak size of all Python objects during the check, in bytes."""
    tracemalloc.start()
    try:
        run(steps_of(raw))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check_steps(meter: Meter, raw: bytes, limit: Limit = STEP) -> None:
    """Check the batch in steps. Raises AssertionError if a step on the event loop exceeds the limit."""
    check_best(meter, limit, lambda _: run_steps(meter, steps_of(raw)))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_batch_payload_is_decompressed_in_a_thread(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    is_on_loop, inflated = True, [0, 0]

    def counted(payload: memoryview, compression: int) -> Iterator[memoryview | bytes]:
        for piece in pieces(payload, compression):
            inflated[is_on_loop] += len(piece)
            yield piece

    monkeypatch.setattr(record_stream, "pieces", counted)
    for step in steps_of(packed([record(delta=i, value=bytes(MIB)) for i in range(3)], codec)).__await__():
        if callable(step):
            is_on_loop = False
            step()
            is_on_loop = True
    assert inflated[True] == 0
    assert inflated[False] > 3 * MIB


@pytest.mark.smoke
@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_decompression_bomb_uses_little_memory_and_blocks_the_event_loop_briefly(meter: Meter, codec: int) -> None:
    raw = packed([record(value=bytes(40 * MIB))], codec)
    check_steps(meter, raw)
    assert peak_bytes(raw) < 8 * MIB


@CODECS
def test_many_tiny_records_use_little_memory_and_block_the_event_loop_briefly(meter: Meter, codec: int) -> None:
    count = 20_000
    raw = bytes(build_batch([(None, b"")] * count, NOW_MS, compression=codec))
    check_steps(meter, raw)
    assert peak_bytes(raw) < 8 * MIB


@pytest.mark.smoke
@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(("count", "headers"), [(1, 500_000), (20, 25_000), (20_000, 25)])
def test_check_of_records_with_many_headers_blocks_the_event_loop_briefly(
    meter: Meter, codec: int, count: int, headers: int
) -> None:
    """A record header may have only two bytes, but decoding it takes more time than any other two bytes of a record."""
    headers = min(headers, max(150_000, meter.size(headers)))
    raw = packed([record(delta=i, headers=varint(headers) + b"\0\1" * headers) for i in range(count)], codec)
    assert check_records(raw, read_header(raw), rules(), Allowance(LIMIT_BYTES)) is None
    check_steps(meter, raw, Limit(lines=150_000, ms=20))


@CODECS
@pytest.mark.parametrize("sizes", [(10, 100), (100, 10), (10, 50_000), (10, 10 * MIB)])
def test_record_up_to_max_message_bytes_is_accepted(codec: int, sizes: tuple[int, int]) -> None:
    """The limit applies only to records of a compressed batch. A record's size includes its key, headers and varints."""
    raw = packed([record(delta=i, value=bytes(size)) for i, size in enumerate(sizes)], codec)
    largest = max(len(record(delta=i, value=bytes(size))) - len(varint(max(sizes))) for i, size in enumerate(sizes))
    assert at_once(raw, rules(max_record_bytes=largest)) in (NOW_MS, None)
    assert in_steps(raw, rules(max_record_bytes=largest)) == NOW_MS
    assert in_steps(raw, rules(max_record_bytes=len(raw) + 11 * MIB)) == NOW_MS
    tight = rules(max_record_bytes=largest - 1)
    if codec == NONE:
        assert in_steps(raw, tight) == NOW_MS
        return
    assert at_once(raw, tight) is None
    error = refused(in_steps, raw, tight)
    assert isinstance(error, record_stream.RecordTooLarge)
    assert (error.code, str(largest) in (error.message or "")) == (Code.INVALID_RECORD, True)


def test_oversized_record_is_not_fully_decompressed() -> None:
    raw = packed([record(), record(delta=1, value=bytes(30 * MIB))], ZSTD)
    header, allowance = read_header(raw), Allowance(LIMIT_BYTES)
    stream = RecordStream(raw, header, allowance, max_record_bytes=1_000)
    assert run(stream.next_records())[1] == 1
    with pytest.raises(record_stream.RecordTooLarge):
        run(stream.next_records())
    assert stream.inflated_bytes < 3 * MIB
