"""Local connections, which ``ottla health`` uses, count towards no quota and no limit per address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.network.pause_reasons import Hold
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Closed, SimulatedClient
from tests.support.batches import batch, record

VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker({"max.connections.per.ip": "3"}).start()
    simulated.broker.cluster.create_topic("t", 1, {})
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def alter(broker: SimulatedBroker, kind: str, **values: float) -> None:
    """Set default quotas of an entity type."""
    ops = [altering.OpData(key=key, value=value, remove=False) for key, value in values.items()]
    entry = altering.EntryData(entity=[altering.EntityData(entity_type=kind, entity_name=None)], ops=ops)
    client = SimulatedClient(broker, "admin")
    assert client.call(altering.AlterClientQuotasRequest(entries=[entry], validate_only=False)).entries[0].error_code == 0
    client.close()
    broker.env.settle()


def local_client(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> SimulatedClient:
    with monkeypatch.context() as patched:
        patched.setattr("ottla.simulation.client._Transport.get_extra_info", lambda transport, name: "")
        return SimulatedClient(broker, "local", broker.broker.security.local_connection())


def is_muted(client: SimulatedClient) -> bool:
    return bool(client._connection._holds & Hold.THROTTLED)


def test_local_connections_are_exempt_from_the_limit_per_address(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(broker, "ip", connection_creation_rate=1)
    clients = [local_client(broker, monkeypatch) for _ in range(30)]
    assert all(client.call(VERSIONS).error_code == 0 for client in clients)
    assert broker.broker.quotas.managers.connections.sensors._by_key == {}
    for client in clients:
        client.close()
    others = [SimulatedClient(broker, "c") for _ in range(4)]
    assert all(client.call(VERSIONS).error_code == 0 for client in others[:3])
    with pytest.raises(Closed):
        others[3].call(VERSIONS)


@pytest.mark.parametrize("kind", ["user", "client-id"])
def test_local_connections_are_exempt_from_client_quotas(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    alter(broker, kind, request_percentage=0.000001, producer_byte_rate=1, consumer_byte_rate=1, controller_mutation_rate=0.001)
    client = local_client(broker, monkeypatch)
    data = PartitionProduceData(index=0, records=batch(record(value=bytes(1_000))))
    produced = client.call(
        ProduceRequest(
            transactional_id=None, acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        ),
        9,
    )
    assert produced.throttle_time_ms == 0 and not is_muted(client)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    for _ in range(3):
        fetched = client.call(fetch, 11)
        assert fetched.throttle_time_ms == 0 and fetched.responses[0].partitions[0].records
    for name in ("x", "y"):
        topic = CreatableTopic(name=name, num_partitions=20, replication_factor=1, assignments=[], configs=[])
        created = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=False), 6)
        assert (created.topics[0].error_code, created.throttle_time_ms) == (0, 0)
    assert not is_muted(client)
