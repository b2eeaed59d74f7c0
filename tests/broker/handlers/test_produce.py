"""Produce: rejected records, appended batches, and the time and memory that large requests take."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from crc32c import crc32c
from msgspec import structs

from ottla.broker.apis.api import RequestContext
from ottla.broker.handlers import produce
from ottla.broker.metrics.exposition import collect
from ottla.protocol import record_stream, records, validation
from ottla.protocol.errors import Code
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.records import TIMESTAMP_TYPE_BIT, build_batch, compress, read_header, renew_crc
from ottla.protocol.steps import Pause, run
from ottla.simulation.broker import SimulatedBroker
from ottla.storage.log import Log
from tests.support.batches import batch, record
from tests.support.counting import Limit, Meter, check_best, run_steps
from tests.support.raw_client import create

ZSTD = 4
MIB = 1 << 20
STEP = Limit(lines=10_000, ms=20)


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker({"ottla.request.inflated.max.bytes": str(64 * MIB)}).start()
    yield broker
    assert not broker.broker.inflating.used_bytes
    broker.close()
    assert not broker.bugs


def make(simulated: SimulatedBroker, topic: str, partitions: int = 1, **configs: str) -> None:
    with simulated.connect() as client:
        create(client, topic, partitions, **configs)  # type: ignore[arg-type]


def log_of(simulated: SimulatedBroker, topic: str, index: int = 0) -> Log:
    return simulated.broker.partitions.get(topic, index).log


def request(topic: str, batches: dict[int, bytes]) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=memoryview(bytearray(raw))) for index, raw in batches.items()]
    return ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(topic, partition_data=data)]
    )


def handled(simulated: SimulatedBroker, asked: ProduceRequest, version: int = 12) -> Any:
    return produce.handle(simulated.broker, asked, RequestContext(version, "test", "", 1, "PLAINTEXT"))


def send(simulated: SimulatedBroker, topic: str, raw: bytes) -> PartitionProduceResponse:
    response = run(handled(simulated, request(topic, {0: raw})))
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


@pytest.mark.parametrize("version", [7, 8, 12])
def test_produce_response_names_invalid_records_from_version_8_on(simulated: SimulatedBroker, version: int) -> None:
    make(simulated, "t", cleanup_policy="compact")
    raw = batch(record() + record(delta=1, key=None), count=2, timestamp_ms=simulated.now_ms())
    with simulated.connect() as client:
        answer = client.call(request("t", {0: raw}), version).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (Code.INVALID_RECORD, -1, -1)
    assert answer.log_start_offset == 0
    named = [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors]
    assert named == ([] if version < 8 else [(1, "Compacted topic cannot accept message without key in topic partition t-0")])
    assert (answer.error_message is None) == (version < 8)
    assert log_of(simulated, "t").log_end_offset == 0


def test_batch_header_is_corrected_to_match_its_records(simulated: SimulatedBroker) -> None:
    make(simulated, "t", message_timestamp_after_max_ms="10000")
    now_ms = simulated.now_ms()
    for said_ms, attributes in ((now_ms + 10**9, 0), (now_ms - 10**6, 0), (now_ms, TIMESTAMP_TYPE_BIT)):
        raw = bytearray(batch(record() + record(delta=1), count=2, timestamp_ms=now_ms, attributes=attributes))
        raw[35:43] = said_ms.to_bytes(8, "big")
        renew_crc(raw)
        assert send(simulated, "t", bytes(raw)).error_code == 0
    headers = [(h.max_timestamp_ms, h.attributes) for _, h, _ in log_of(simulated, "t").segments[0].scan()]
    assert headers == [(now_ms, 0)] * 3
    assert log_of(simulated, "t").segments[0].max_timestamp_ms == now_ms


def test_batch_with_a_nonzero_base_offset_is_refused(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    raw = bytearray(batch(record()))
    raw[7] = 5
    assert send(simulated, "t", bytes(raw)).error_code == Code.INVALID_RECORD


def test_batch_size_is_checked_before_decompression(simulated: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    make(simulated, "t", max_message_bytes="400")
    raw = batch(compress(record(value=bytes(20 * MIB)), ZSTD), attributes=ZSTD)
    assert len(raw) > 400
    for module, function in ((record_stream, "pieces"), (validation, "_small")):
        monkeypatch.setattr(module, function, lambda payload, compression: pytest.fail("the batch was decompressed"))
    response = run(handled(simulated, request("t", {0: raw})))
    assert response.responses[0].partition_responses[0].error_code == Code.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("max_bytes", [100_000_000, 1_000])
def test_crc_of_a_large_batch_is_computed_once_in_a_thread(
    simulated: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    make(simulated, "t", max_message_bytes=str(max_bytes))
    sizes: list[int] = []

    def counted(data: memoryview) -> int:
        sizes.append(len(data))
        return int(crc32c(data))

    monkeypatch.setattr(records, "crc32c", counted)
    raw = batch(record(value=bytes(3 * MIB)), timestamp_ms=simulated.now_ms())
    for wrong in (False, True):
        sizes.clear()
        steps = handled(simulated, request("t", {0: raw[:-1] + b"x" if wrong else raw}))
        aside = steps.send(None)
        assert sizes == [] and callable(aside)
        aside()
        assert len(sizes) == 1
        answer = run(steps).responses[0].partition_responses[0]
        expected = Code.CORRUPT_MESSAGE if wrong else Code.NONE if max_bytes > len(raw) else Code.MESSAGE_TOO_LARGE
        assert (answer.error_code, len(sizes)) == (expected, 1)


def test_all_batches_of_a_produce_request_share_the_decompression_limit(meter: Meter, simulated: SimulatedBroker) -> None:
    """Thirty batches inflate from a few KiB to 40 MiB each. The first batch uses most of the limit, so 29 batches are refused."""
    make(simulated, "t", 30)
    bomb = batch(compress(record(value=bytes(40 * MIB)), ZSTD), attributes=ZSTD, timestamp_ms=simulated.now_ms())

    def attempt(_: int) -> None:
        before_bytes = simulated.broker.counters.inflated_bytes
        response, aside = run_steps(meter, handled(simulated, request("t", dict.fromkeys(range(30), bomb))))
        codes = [p.error_code for p in response.responses[0].partition_responses]
        assert codes == [0] + [Code.MESSAGE_TOO_LARGE] * 29
        assert aside <= 70
        assert simulated.broker.counters.inflated_bytes - before_bytes <= 66 * MIB

    check_best(meter, STEP, attempt)


@pytest.mark.smoke
def test_large_produce_request_is_handled_in_steps(meter: Meter, simulated: SimulatedBroker) -> None:
    """The request has 300 batches of 1,000 records each."""
    make(simulated, "t", 300)
    raw = bytes(build_batch([(b"k", b"v" * 20)] * 1_000, simulated.now_ms()))

    def attempt(number: int) -> None:
        response, _ = run_steps(meter, handled(simulated, request("t", dict.fromkeys(range(300), raw))))
        assert {p.error_code for p in response.responses[0].partition_responses} == {0}
        assert log_of(simulated, "t", 299).log_end_offset == 1_000 * (number + 1)

    check_best(meter, STEP, attempt)


def test_small_produce_request_is_handled_in_one_step(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    raw = bytes(build_batch([(b"k", b"v" * 100)] * 1_000, simulated.now_ms(), compression=ZSTD))
    with pytest.raises(StopIteration):
        handled(simulated, request("t", {0: raw})).send(None)


def test_topic_config_change_during_batch_validation_takes_effect(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    raw = bytes(build_batch([(None, b"v")] * 20_000, simulated.now_ms(), compression=ZSTD))
    steps = handled(simulated, request("t", {0: raw}))
    steps.send(None)
    log = log_of(simulated, "t")
    log.config = type(log.config)(cleanup_policy=("compact",))
    answer = run(steps).responses[0].partition_responses[0]
    assert (answer.error_code, len(answer.record_errors)) == (Code.INVALID_RECORD, 10_000)
    steps = handled(simulated, request("t", {0: bytes(build_batch([(b"k", b"v")] * 20_000, simulated.now_ms()))}))
    steps.send(None)
    simulated.broker.cluster.delete_topic("t")
    assert run(steps).responses[0].partition_responses[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_decompression_memory_is_released_when_the_client_disconnects(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    raw = bytes(build_batch([(b"k", b"v")] * 20_000, simulated.now_ms(), compression=ZSTD))
    assert read_header(raw).record_count == 20_000
    steps = handled(simulated, request("t", {0: raw}))
    steps.send(None)
    assert simulated.broker.inflating.used_bytes
    steps.close()
    assert not simulated.broker.inflating.used_bytes


def test_decompression_of_a_batch_waits_for_the_memory_budget(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    memory = simulated.broker.inflating
    run(memory.take(memory.limit_bytes))
    raw = bytes(build_batch([(b"k", b"v")] * 12_000, simulated.now_ms(), compression=ZSTD))
    waiting = [handled(simulated, request("t", {0: raw})) for _ in range(3)]
    pauses = [steps.send(None) for steps in waiting]
    assert all(isinstance(pause, Pause) for pause in pauses), "waiting validations hold no memory"
    woken: list[int] = []
    for at, pause in enumerate(pauses):
        pause.then(partial(woken.append, at))
    waiting[1].close()
    memory.give(memory.limit_bytes)
    assert woken == [0, 2]
    for at in woken:
        assert run(waiting[at]).responses[0].partition_responses[0].error_code == 0
    assert memory.used_bytes == 0


@pytest.mark.smoke
def test_decompression_bomb_in_a_coordinator_log_does_not_prevent_the_start(simulated: SimulatedBroker) -> None:
    """As in Apache Kafka, a client with the admin client's client id may write to a coordinator's log."""
    with simulated.connect("__admin_client") as client:
        client.call(FindCoordinatorRequest(key="g", key_type=0), 3)
    log = log_of(simulated, "__consumer_offsets")
    bomb = bytearray(batch(compress(record(value=bytes(65 * MIB)), ZSTD), attributes=ZSTD, timestamp_ms=simulated.now_ms()))
    log.append_as_leader(bomb, read_header(bomb), simulated.now_ms())
    simulated.restart()
    assert log_of(simulated, "__consumer_offsets").log_end_offset == 1


def test_decompressed_bytes_of_produced_batches_are_a_metric(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    send(simulated, "t", bytes(build_batch([(b"k", b"v" * 1_000)] * 12_000, simulated.now_ms(), compression=ZSTD)))
    samples = {s.name: s.value for metric in collect(simulated.broker) for s in metric.samples}
    assert samples["ottla_inflated_bytes_total"] > 9_000_000
    assert samples["ottla_inflating_memory_bytes"] == 0
    assert samples["ottla_inflating_memory_limit_bytes"] == 256 * MIB


def test_produce_response_has_the_log_start_offset_of_the_log(simulated: SimulatedBroker) -> None:
    """A request that is refused before the log is consulted gets no log start offset, as in Kafka."""
    make(simulated, "t")
    good = bytes(build_batch([(b"k", b"v")], simulated.now_ms()))
    assert send(simulated, "t", good).log_start_offset == 0
    for raw in (b"", good + good, good[:-5], good[:16] + b"\1" + good[17:]):
        refused = send(simulated, "t", raw)
        assert (refused.error_code, refused.log_start_offset) == (Code.INVALID_RECORD, -1)
    make(simulated, "compact", cleanup_policy="compact")
    refused = send(simulated, "compact", bytes(build_batch([(None, b"v")], simulated.now_ms())))
    assert (refused.error_code, refused.log_start_offset) == (Code.INVALID_RECORD, 0)


def test_produce_response_omits_a_topic_without_partitions(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    assert run(handled(simulated, request("t", {}))).responses == []


def test_revalidated_batch_counts_once_toward_the_decompression_limit(simulated: SimulatedBroker) -> None:
    """The topic's config changes during the validation. The limit would not be enough for inflating the batch twice."""
    make(simulated, "t")
    raw = bytes(build_batch([(b"k", bytes(40 * MIB))], simulated.now_ms(), compression=ZSTD))
    steps = handled(simulated, request("t", {0: raw}))
    steps.send(None)
    log = log_of(simulated, "t")
    log.config = structs.replace(log.config, retention_ms=1_000)
    answer = run(steps).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_batch_is_validated_once_when_the_topic_config_is_unchanged(simulated: SimulatedBroker) -> None:
    make(simulated, "t")
    raw = bytes(build_batch([(b"k", bytes(40 * MIB))], simulated.now_ms(), compression=ZSTD))
    before = simulated.broker.counters.inflated_bytes
    steps, log = handled(simulated, request("t", {0: raw})), log_of(simulated, "t")
    steps.send(None)
    log.config = structs.replace(log.config)
    assert run(steps).responses[0].partition_responses[0].error_code == 0
    assert simulated.broker.counters.inflated_bytes - before < 41 * MIB
