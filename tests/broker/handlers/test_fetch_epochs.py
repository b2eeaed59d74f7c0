"""A fetch with the last fetched epoch gets the diverging epoch and its end offset (KIP-595)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinator.replication.leader import sole_leader
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchTopic, LeaderIdAndEpoch, PartitionData
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from tests.support.raw_client import create

ENDS = (3, 5)
"""End offsets of the partition's two leader epochs, 0 and 1."""


def write(client: SimulatedClient, count: int) -> None:
    batch = bytes(build_batch([(b"k", b"v")] * count, START_MS))
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0


@pytest.fixture
def client() -> Iterator[SimulatedClient]:
    """A client of a broker with a partition that has records of two leader epochs."""
    broker = SimulatedBroker().start()
    with broker.connect() as client:
        create(client, "t", 2)  # type: ignore[arg-type]
        write(client, ENDS[0])
        partition = broker.broker.partitions.get("t", 0)
        partition.lead(sole_leader(1, 1, partition.log.log_end_offset))
        write(client, ENDS[1] - ENDS[0])
        yield client
    broker.close()
    assert broker.bugs == 0


def request(client: SimulatedClient, offset: int, last_epoch: int, **given: Any) -> FetchRequest:
    topic_id = client.call(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0].topic_id
    asked = FetchPartition(0, fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=1_000)
    return FetchRequest(
        **{"max_wait_ms": 10_000, "min_bytes": 1, **given}, topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[asked])]
    )


def fetch(client: SimulatedClient, offset: int, last_epoch: int, **given: Any) -> PartitionData:
    answer = client.call(request(client, offset, last_epoch, **given), 16)
    (topic,) = answer.responses
    (part,) = topic.partitions
    assert isinstance(part, PartitionData)
    return part


def test_fetch_returns_a_diverging_epoch_with_its_end_offset(client: SimulatedClient) -> None:
    for offset, last_epoch, end in ((4, 0, 3), (5, 0, 3), (6, 1, 5), (99, 1, 5)):
        part = fetch(client, offset, last_epoch)
        assert (part.error_code, part.diverging_epoch) == (0, EpochEndOffset(epoch=last_epoch, end_offset=end))
        assert (part.high_watermark, part.log_start_offset, part.records) == (5, 0, b"")


def test_fetch_with_a_matching_epoch_returns_records(client: SimulatedClient) -> None:
    for offset, last_epoch in ((0, 0), (3, 0), (3, 1), (4, 1), (0, -1), (3, -2)):
        part = fetch(client, offset, last_epoch)
        assert (part.error_code, part.diverging_epoch) == (0, None)
        assert part.records


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, 2), (5, 9), (-1, 0), (-1, 1), (6, -1)])
def test_fetch_with_a_future_epoch_or_unknown_offset_is_out_of_range(client: SimulatedClient, offset: int, last_epoch: int) -> None:
    part = fetch(client, offset, last_epoch)
    assert part.error_code == Code.OFFSET_OUT_OF_RANGE
    assert (part.diverging_epoch, part.aborted_transactions) == (None, None)


def test_fetch_with_an_old_leader_epoch_gets_the_current_leader(client: SimulatedClient) -> None:
    """As in Kafka (KIP-951), a broker returns no leader if its own epoch is older than the request's: its metadata may be old."""
    for epoch, code, leader in (
        (0, Code.FENCED_LEADER_EPOCH, LeaderIdAndEpoch(leader_id=1, leader_epoch=1)),
        (2, Code.UNKNOWN_LEADER_EPOCH, None),
    ):
        asked = request(client, 0, -1)
        asked.topics[0].partitions[0].current_leader_epoch = epoch
        answer = client.call(asked, 16)
        (part,) = answer.responses[0].partitions
        assert (part.error_code, part.current_leader) == (code, leader)
        assert [node.node_id for node in answer.node_endpoints] == ([] if leader is None else [1])


def test_fetch_session_returns_a_diverging_epoch_without_new_records(client: SimulatedClient) -> None:
    first = client.call(request(client, 5, 1, max_wait_ms=0, session_epoch=0), 16)
    assert first.session_id
    later = request(client, 5, 0, session_id=first.session_id, session_epoch=1)
    ((part,),) = (topic.partitions for topic in client.call(later, 16).responses)
    assert part.diverging_epoch == EpochEndOffset(epoch=0, end_offset=3)


@pytest.mark.parametrize(("version", "code"), [(4, 0), (11, Code.INVALID_REQUEST), (16, Code.INVALID_REQUEST)])
def test_fetch_with_an_unknown_isolation_level_is_refused(client: SimulatedClient, version: int, code: int) -> None:
    """If the broker treated an unknown level as read_uncommitted, the client would see records of open transactions."""
    asked = request(client, 0, -1, isolation_level=2)
    answer = client.call(asked, version)
    codes = [part.error_code for topic in answer.responses for part in topic.partitions]
    assert codes == ([] if version >= 13 else [Code.INVALID_REQUEST])
    assert answer.error_code == code


def test_fetch_session_that_mixes_topic_names_and_ids_is_refused(client: SimulatedClient) -> None:
    """All requests of a session name topics either by name or by id; otherwise the session could not match partitions (KIP-516)."""
    for version, other in ((16, 12), (12, 16)):
        first = client.call(request(client, 5, -1, max_wait_ms=0, session_epoch=0), version)
        for _ in range(2):
            mixed = client.call(request(client, 5, -1, session_id=first.session_id, session_epoch=1), other)
            assert (mixed.error_code, mixed.responses) == (Code.FETCH_SESSION_TOPIC_ID_ERROR, [])
        same = client.call(request(client, 5, -1, max_wait_ms=0, session_id=first.session_id, session_epoch=1), version)
        assert same.error_code == 0
