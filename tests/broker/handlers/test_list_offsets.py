"""ListOffsets by timestamp: the offsets found, and the time and memory that malicious batches and requests take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.apis.api import RequestContext
from ottla.broker.handlers import list_offsets
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from ottla.protocol.records import LZ4, ZSTD, build_batch, compress, read_header, with_attributes
from ottla.protocol.steps import run
from ottla.simulation.broker import SimulatedBroker
from ottla.storage.log import Log
from tests.support.batches import batch, record
from tests.support.counting import Limit, Meter, check_best, run_steps
from tests.support.raw_client import create

MIB = 1 << 20
STEP = Limit(lines=10_000, ms=20)


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    with broker.connect() as client:
        create(client, "t", 500)  # type: ignore[arg-type]
    yield broker
    broker.close()
    assert not broker.bugs


def log_of(simulated: SimulatedBroker, index: int = 0) -> Log:
    return simulated.broker.partitions.get("t", index).log


def store(simulated: SimulatedBroker, raw: bytes | bytearray, index: int = 0) -> None:
    """Append a batch to the log without validation. A log directory of Apache Kafka may contain such a batch."""
    raw = bytearray(raw)
    simulated.broker.partitions.get("t", index).append(raw, read_header(raw))


def asked(*timestamps_ms: int, first: int = 0) -> ListOffsetsRequest:
    """Return a request with one timestamp per partition, from partition ``first`` on."""
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[
                    ListOffsetsPartition(partition_index=i, current_leader_epoch=-1, timestamp=at_ms)
                    for i, at_ms in enumerate(timestamps_ms, first)
                ],
            )
        ],
    )


def handled(simulated: SimulatedBroker, request: ListOffsetsRequest) -> Any:
    return list_offsets.handle(simulated.broker, request, RequestContext(10, "test", "", 1, "PLAINTEXT"))


def answers(simulated: SimulatedBroker, *timestamps_ms: int) -> list[tuple[int, int, int]]:
    """Send one request per timestamp and return the responses."""
    answered = []
    for at_ms in timestamps_ms:
        response_or_steps = handled(simulated, asked(at_ms))
        response: ListOffsetsResponse = run(response_or_steps)
        answered += [(p.error_code, p.offset, p.timestamp) for p in response.topics[0].partitions]
    return answered


@pytest.mark.parametrize("codec", range(5))
def test_list_offsets_returns_the_first_offset_at_or_after_a_timestamp(simulated: SimulatedBroker, codec: int) -> None:
    now_ms = simulated.now_ms()
    records = b"".join(record(delta=i, timestamp_delta_ms=d, value=b"v" * 9_000) for i, d in enumerate([0, 30, 10, 40, 20]))
    store(simulated, batch(compress(records, codec), count=5, timestamp_ms=now_ms, max_timestamp_ms=now_ms + 40, attributes=codec))
    assert answers(simulated, now_ms - 5, now_ms + 5, now_ms + 40, now_ms + 41, -3) == [
        (0, 0, now_ms),
        (0, 1, now_ms + 30),
        (0, 3, now_ms + 40),
        (0, -1, -1),
        (0, 3, now_ms + 40),
    ]
    log_of(simulated).delete_records(2)
    assert answers(simulated, now_ms - 5) == [(0, 2, now_ms + 10)]


def test_list_offsets_finds_a_log_append_time_without_reading_records(simulated: SimulatedBroker) -> None:
    noise = with_attributes(bytearray(batch(b"noise", count=3, attributes=LZ4, timestamp_ms=simulated.now_ms())), 0x08)
    store(simulated, noise)
    assert answers(simulated, simulated.now_ms()) == [(0, 0, simulated.now_ms())]


def test_list_offsets_reports_an_unreadable_batch(simulated: SimulatedBroker) -> None:
    store(simulated, batch(b"noise", count=3, attributes=ZSTD, timestamp_ms=simulated.now_ms()))
    assert answers(simulated, simulated.now_ms(), -1) == [(Code.CORRUPT_MESSAGE, -1, -1), (0, 3, -1)]


@pytest.mark.smoke
def test_list_offsets_in_a_stored_decompression_bomb_uses_little_memory(meter: Meter, simulated: SimulatedBroker) -> None:
    """A log directory of Apache Kafka may contain a batch that ottla's validation would have refused."""
    bomb = record(value=bytes(40 * MIB)) + record(delta=1, timestamp_delta_ms=5)
    now_ms = simulated.now_ms()
    store(simulated, batch(compress(bomb, ZSTD), count=2, attributes=ZSTD, timestamp_ms=now_ms, max_timestamp_ms=now_ms + 5))
    tracemalloc.start()
    assert answers(simulated, simulated.now_ms() + 5) == [(0, 1, simulated.now_ms() + 5)]
    assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    tracemalloc.stop()
    check_best(meter, STEP, lambda _: run_steps(meter, handled(simulated, asked(simulated.now_ms() + 5))))


@pytest.mark.full
def test_list_offsets_of_many_partitions_is_answered_in_steps(meter: Meter, simulated: SimulatedBroker) -> None:
    now_ms = simulated.now_ms()
    raw = build_batch([(b"k", b"v" * 50)] * 1_000, now_ms, compression=ZSTD)
    for index in range(500):
        store(simulated, raw, index)
    for timestamps_ms in ([now_ms] * 500, [-1] * 5_000):
        check_best(meter, STEP, lambda _: run_steps(meter, handled(simulated, asked(*timestamps_ms))))  # noqa: B023


def test_list_offsets_answers_a_duplicate_partition_once(simulated: SimulatedBroker) -> None:
    partitions = [
        ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=at_ms)
        for index, at_ms in ((0, -1), (1, -1), (0, -2), (0, -2))
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    response = run(handled(simulated, request))
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [(0, Code.INVALID_REQUEST), (1, 0)]


def test_list_offsets_of_few_partitions_is_answered_in_one_step(simulated: SimulatedBroker) -> None:
    store(simulated, build_batch([(b"k", b"v" * 50)] * 100, simulated.now_ms()))
    with pytest.raises(StopIteration):
        handled(simulated, asked(simulated.now_ms(), -1, -2, -3)).send(None)


@pytest.mark.parametrize(("version", "code"), [(10, Code.UNSUPPORTED_VERSION), (11, Code.NONE)])
def test_list_offsets_11_accepts_the_earliest_pending_upload_offset(simulated: SimulatedBroker, version: int, code: Code) -> None:
    response = run(list_offsets.handle(simulated.broker, asked(-6), RequestContext(version, "test", "", 1, "PLAINTEXT")))
    (answer,) = response.topics[0].partitions
    assert (answer.error_code, answer.offset) == (code, -1)


def test_list_offsets_skips_a_segment_deleted_during_the_search(simulated: SimulatedBroker) -> None:
    log, now_ms = log_of(simulated), simulated.now_ms()
    for _ in range(2):
        store(simulated, build_batch([(b"k", b"v" * 50)] * 20_000, now_ms, compression=ZSTD))
        log.roll(now_ms)
    steps = handled(simulated, asked(now_ms))
    steps.send(None)
    log.log_start_offset = 20_000
    log.segments.pop(0).mark_deleted()
    response = run(steps)
    assert [p.offset for p in response.topics[0].partitions] == [20_000]
