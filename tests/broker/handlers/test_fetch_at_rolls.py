"""A fetch that reaches the end of a segment does not wait for more data, because the next segment already has some."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import START_MS
from tests.support.raw_client import create

WAIT_MS = 5_000


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    with broker.connect() as client:
        create(client, "t", 1)  # type: ignore[arg-type]
        batch = bytes(build_batch([(b"k", b"v" * 100)], START_MS))
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=batch)])],
        )
        for offset in range(4):
            if offset == 2:
                broker.broker.partitions.get("t", 0).log.roll(START_MS)
            assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0
    yield broker
    broker.close()
    assert broker.bugs == 0


def waited_ms(broker: SimulatedBroker, fetch_offset: int, min_bytes: int, isolation_level: int = 0) -> float:
    """Return how long the response to a fetch takes, in simulated milliseconds. The response must have records."""
    with broker.connect() as client:
        topic_id = client.call(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0].topic_id
        asked = FetchPartition(0, fetch_offset=fetch_offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=min_bytes,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[asked])],
        )
        began_ms = broker.now_ms()
        answer = client.call(request, 16)
        assert answer.responses[0].partitions[0].records
        return broker.now_ms() - began_ms


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_fetch_from_an_older_segment_does_not_wait_for_min_bytes(broker: SimulatedBroker, isolation_level: int) -> None:
    """As in DelayedFetch, a fetch offset in an older segment than the log end completes the fetch."""
    assert waited_ms(broker, 0, 1 << 20, isolation_level) < WAIT_MS


def test_fetch_from_the_newest_segment_waits_for_min_bytes(broker: SimulatedBroker) -> None:
    assert waited_ms(broker, 3, 1 << 20) >= WAIT_MS
