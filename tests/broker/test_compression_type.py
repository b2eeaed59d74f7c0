"""Batches from clients in topics whose ``compression.type`` differs from the batch's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.apis.api import RequestContext
from ottla.broker.handlers import produce
from ottla.protocol import recompressing
from ottla.protocol.errors import Code
from ottla.protocol.inflating import pieces
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.records import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    BatchHeader,
    compress,
    crc_is_valid,
    read_header,
)
from ottla.protocol.steps import Pause, run
from ottla.simulation.broker import SimulatedBroker
from ottla.storage.reading import read
from tests.support.batches import batch, record
from tests.support.raw_client import create

TYPES = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MIB = 1 << 20
WORDS = b" ".join(b"key%d=value%d;" % (number * number % 977, number % 89) for number in range(10_000))
"""Text that compresses better at higher levels."""


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    yield broker
    assert not broker.broker.inflating.used_bytes
    broker.close()
    assert not broker.bugs


def make(simulated: SimulatedBroker, **configs: str) -> None:
    with simulated.connect() as client:
        create(client, "t", 1, **configs)  # type: ignore[arg-type]


def packed(simulated: SimulatedBroker, records: list[bytes], codec: int = 0, *, attributes: int = 0, pid: int = -1) -> bytes:
    return batch(
        compress(b"".join(records), codec),
        count=len(records),
        attributes=codec | attributes,
        timestamp_ms=simulated.now_ms(),
        producer=(pid, 0, 0) if pid >= 0 else (-1, -1, -1),
    )


def handled(simulated: SimulatedBroker, raw: bytes) -> Any:
    data = [PartitionProduceData(index=0, records=memoryview(bytearray(raw)))]
    topics = [TopicProduceData("t", partition_data=data)]
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=topics)
    return produce.handle(simulated.broker, request, RequestContext(12, "test", "", 1, "PLAINTEXT"))


def answer(handled: Any) -> PartitionProduceResponse:
    response = run(handled)
    answered: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answered


def stored(simulated: SimulatedBroker, offset: int = 0) -> tuple[BatchHeader, bytes]:
    """Return the header and the decompressed payload of the batch at an offset."""
    data = bytes(read(simulated.broker.partitions.get("t", 0).log, offset, 1, committed=False).data)
    header = read_header(data)
    assert crc_is_valid(data, header)
    return header, b"".join(pieces(memoryview(data)[HEADER_BYTES:], header.compression))


@pytest.mark.parametrize("wanted", TYPES)
def test_batches_are_recompressed_to_compression_type_and_otherwise_unchanged(simulated: SimulatedBroker, wanted: str) -> None:
    make(simulated, compression_type=wanted)
    records = [record(delta=i, value=b"x" * 50, headers=b"\x02\x02\xff\x02v") for i in range(5)]
    for number in range(5):
        raw = packed(simulated, records, number, pid=70 + number)
        sent = read_header(raw)
        answered = answer(handled(simulated, raw))
        assert (answered.error_code, answered.base_offset) == (Code.NONE, number * 5)
        header, payload = stored(simulated, number * 5)
        assert header.compression == TYPES[wanted]
        assert payload == b"".join(records)
        kept = ("last_offset_delta", "base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch", "base_sequence")
        assert [getattr(header, name) for name in kept] == [getattr(sent, name) for name in kept]


def test_unknown_attribute_bits_of_a_batch_are_cleared(simulated: SimulatedBroker) -> None:
    make(simulated, compression_type="zstd")
    raw = packed(simulated, [record()], 1, attributes=DELETE_HORIZON_BIT | 0x80)
    assert answer(handled(simulated, raw)).error_code == Code.NONE
    assert stored(simulated)[0].attributes == TYPES["zstd"]


def test_batch_with_the_same_compression_is_stored_unchanged(simulated: SimulatedBroker) -> None:
    make(simulated, compression_type="gzip", compression_gzip_level="9")
    raw = packed(simulated, [record(value=WORDS[:1000])], 1)
    with pytest.raises(StopIteration):
        handled(simulated, raw).send(None)
    assert stored(simulated)[0].crc == read_header(raw).crc


@pytest.mark.parametrize(("wanted", "levels"), [("gzip", (1, 4, 9)), ("lz4", (9, 3, 12)), ("zstd", (-50, 3, 9))])
def test_configured_compression_levels_take_effect(simulated: SimulatedBroker, wanted: str, levels: tuple[int, ...]) -> None:
    """As in Java, level 9 of lz4 selects the fast compressor."""
    sizes = []
    make(simulated, compression_type=wanted)
    for at, level in enumerate(levels):
        with simulated.connect() as client:
            config = AlterableConfig(name=f"compression.{wanted}.level", config_operation=0, value=str(level))
            resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
            assert client.call(IncrementalAlterConfigsRequest([resource])).responses[0].error_code == 0
        assert answer(handled(simulated, packed(simulated, [record(value=WORDS)]))).error_code == Code.NONE
        sizes.append(stored(simulated, at)[0].size_bytes)
    assert sizes[0] > sizes[1] > sizes[2]


def test_broker_compression_type_applies_to_topics_without_their_own(simulated: SimulatedBroker) -> None:
    make(simulated)
    with simulated.connect() as client:
        config = AlterableConfig(name="compression.type", config_operation=0, value="lz4")
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        assert client.call(IncrementalAlterConfigsRequest([resource])).responses[0].error_code == 0
    assert answer(handled(simulated, packed(simulated, [record()]))).error_code == Code.NONE
    assert stored(simulated)[0].compression == TYPES["lz4"]


def test_segment_bytes_applies_to_the_size_after_recompression(simulated: SimulatedBroker) -> None:
    make(simulated, compression_type="gzip", segment_bytes=str(MIB), max_message_bytes=str(10 * MIB))
    raw = packed(simulated, [record(value=bytes(2 * MIB))])
    assert answer(handled(simulated, raw)).error_code == Code.NONE
    assert stored(simulated)[0].compression == TYPES["gzip"]


def test_large_batches_are_recompressed_in_a_thread(simulated: SimulatedBroker) -> None:
    make(simulated, compression_type="zstd", max_message_bytes=str(10 * MIB))
    raw = packed(simulated, [record(delta=i, value=bytes(100_000)) for i in range(30)], 1)
    steps = handled(simulated, raw)
    aside = [step for step in steps.__await__() if step is not None and (step() or True)]
    assert len(aside) > 3
    assert stored(simulated)[0].compression == TYPES["zstd"]


def test_recompression_does_not_fully_decompress_an_oversized_batch(
    simulated: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(simulated, compression_type="uncompressed")
    inflated = 0

    def counted(payload: memoryview, compression: int) -> Iterator[memoryview | bytes]:
        nonlocal inflated
        for piece in pieces(payload, compression):
            inflated += len(piece)
            yield piece

    monkeypatch.setattr(recompressing, "pieces", counted)
    raw = packed(simulated, [record(value=bytes(20 * MIB))], TYPES["zstd"])
    assert answer(handled(simulated, raw)).error_code == Code.MESSAGE_TOO_LARGE
    assert inflated < 2 * MIB


def test_recompression_waits_for_the_memory_budget(simulated: SimulatedBroker) -> None:
    make(simulated, compression_type="zstd")
    memory = simulated.broker.inflating
    run(memory.take(memory.limit_bytes))
    steps = handled(simulated, packed(simulated, [record()]))
    pause = steps.send(None)
    assert isinstance(pause, Pause)
    memory.give(memory.limit_bytes)
    assert answer(steps).error_code == Code.NONE


def test_recompression_memory_is_released_when_the_client_disconnects(simulated: SimulatedBroker) -> None:
    make(simulated, compression_type="gzip", max_message_bytes=str(10 * MIB))
    steps = handled(simulated, packed(simulated, [record(delta=i, value=bytes(100_000)) for i in range(30)]))
    for step in steps.__await__():
        if callable(step) and "go_on" in getattr(step, "__name__", ""):
            assert simulated.broker.inflating.used_bytes
            steps.close()
            return
        if callable(step):
            step()
    pytest.fail("no batch was compressed in a thread")
