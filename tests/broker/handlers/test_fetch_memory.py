"""Memory for records that fetches have read, or may still read, counts toward the shared response budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.fetch import PARTITIONS_AT_ONCE, Fetch
from ottla.broker.limits.memory_budgets import CHECK_MS, ResponseBudget
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from tests.support.raw_client import create

PARTITIONS = 2 * PARTITIONS_AT_ONCE
VALUE_BYTES = 10_000


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker({"ottla.queued.max.response.bytes": "1000000"}).start()
    with broker.connect() as client:
        create(client, "t", PARTITIONS)
    yield broker
    assert broker.broker.connections.response_budget._read_bytes == 0
    broker.close()
    assert broker.bugs == 0


def produce(client: SimulatedClient, *partitions: int) -> None:
    batch = bytes(build_batch([(None, b"v" * VALUE_BYTES)], START_MS))
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(index=index, records=batch) for index in partitions])]
    client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data), 9)


def fetch(*partitions: int, min_bytes: int = 1, wait_ms: int = 60_000) -> FetchRequest:
    asked = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in partitions]
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=50 << 20, topics=[FetchTopic(topic="t", partitions=asked)]
    )


def parked(broker: SimulatedBroker) -> list[Any]:
    """Return the callbacks of parked fetches."""
    waiters: dict[Any, None] = {}
    for partition in broker.broker.partitions:
        waiters |= dict.fromkeys(partition.waiters)
    return list(waiters)


def budget(broker: SimulatedBroker) -> ResponseBudget:
    return broker.broker.connections.response_budget


def test_parked_fetch_keeps_no_records_in_memory(simulated: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches: list[Fetch] = []
    respond = Fetch.respond

    def noted(self: Fetch) -> Any:
        fetches.append(self)
        return respond(self)

    monkeypatch.setattr(Fetch, "respond", noted)
    with simulated.connect() as writer, simulated.connect() as reader:
        produce(writer, 0)
        sent = reader.send(fetch(0, min_bytes=2 * VALUE_BYTES), 11)
        assert len(parked(simulated)) == 1
        assert fetches[0]._answers == []
        produce(writer, 0)
        assert len(reader.receive(sent).responses[0].partitions[0].records) > 2 * VALUE_BYTES


@pytest.mark.parametrize("max_bytes", [2 * VALUE_BYTES, 2 * VALUE_BYTES + VALUE_BYTES // 2])
def test_min_bytes_of_a_fetch_is_limited_by_its_max_bytes(simulated: SimulatedBroker, max_bytes: int) -> None:
    with simulated.connect() as writer, simulated.connect() as reader:
        request = fetch(0, min_bytes=50 * VALUE_BYTES)
        request.max_bytes = max_bytes
        for _ in range(3):
            produce(writer, 0)
        sent = reader.send(request, 11)
        assert parked(simulated) == []
        assert reader.receive(sent).responses[0].partitions[0].records


def test_parked_fetch_is_answered_at_max_bytes(simulated: SimulatedBroker) -> None:
    with simulated.connect() as writer, simulated.connect() as reader:
        request = fetch(0, min_bytes=50 * VALUE_BYTES)
        request.max_bytes = 2 * VALUE_BYTES + VALUE_BYTES // 2
        produce(writer, 0)
        sent = reader.send(request, 11)
        assert len(parked(simulated)) == 1
        produce(writer, 0)
        produce(writer, 0)
        assert parked(simulated) == []
        assert reader.receive(sent).responses[0].partitions[0].records


def test_woken_fetch_waits_for_the_shared_memory_budget(simulated: SimulatedBroker) -> None:
    with simulated.connect() as writer, simulated.connect() as reader:
        sent = reader.send(fetch(0), 11)
        budget(simulated).read(1_000_000)
        produce(writer, 0)
        simulated.env.advance(5 * CHECK_MS)
        assert reader._transport.next_frame() is None
        budget(simulated).read(-1_000_000)
        assert reader.receive(sent).responses[0].partitions[0].records


def test_timed_out_fetch_waits_for_the_shared_memory_budget(simulated: SimulatedBroker) -> None:
    with simulated.connect() as writer, simulated.connect() as reader:
        produce(writer, 0)
        sent = reader.send(fetch(0, min_bytes=1 << 20, wait_ms=500), 11)
        budget(simulated).read(1_000_000)
        simulated.env.advance(1_000)
        assert reader._transport.next_frame() is None
        budget(simulated).read(-1_000_000)
        assert reader.receive(sent).responses[0].partitions[0].records


def test_fetch_waiting_for_memory_is_dropped_when_its_client_disconnects(simulated: SimulatedBroker) -> None:
    with simulated.connect() as writer, simulated.connect() as reader:
        reader.send(fetch(0), 11)
        budget(simulated).read(1_000_000)
        produce(writer, 0)
        assert budget(simulated).waiting_count == 1
        reader.close()
        assert budget(simulated).waiting_count == 0
        budget(simulated).read(-1_000_000)


def test_fetch_in_steps_reads_within_the_memory_limit(simulated: SimulatedBroker) -> None:
    with simulated.connect() as writer, simulated.connect() as reader:
        produce(writer, *range(PARTITIONS))
        answer = reader.call(fetch(*range(PARTITIONS)), 11)
        size_bytes = sum(len(p.records or b"") for t in answer.responses for p in t.partitions)
        assert 500_000 < size_bytes < PARTITIONS * VALUE_BYTES
