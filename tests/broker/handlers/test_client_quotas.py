"""Clients beyond their quotas get Kafka's throttle times, and their connections are muted. All time is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.loop.timed_calls import TimedCall
from ottla.broker.network.pause_reasons import Hold
from ottla.protocol.codec import request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages import share_fetch as share_fetching
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Closed, SimulatedClient
from tests.support.batches import batch, record
from tests.support.counting import LineMeter

RATE = 100


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start()
    simulated.broker.cluster.create_topic("t", 1, {})
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def alter(broker: SimulatedBroker, entity: dict[str, str | None], **values: float | None) -> None:
    client = SimulatedClient(broker, "admin")
    entry = altering.EntryData(
        entity=[altering.EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()],
        ops=[altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    answer = client.call(altering.AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert answer.entries[0].error_code == 0, answer
    client.close()


def produce(size_bytes: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(record(value=bytes(size_bytes))))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=[topic])


def fetch(*, partition_max_bytes: int = 1 << 20, **more: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=partition_max_bytes)
    values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])], **(values | more))


def is_muted(client: SimulatedClient) -> bool:
    return bool(client._connection._holds & Hold.THROTTLED)


def throttled_produce(client: SimulatedClient, size_bytes: int) -> int:
    wait_ms: int = client.call(produce(size_bytes), 9).throttle_time_ms
    return wait_ms


def test_producer_is_throttled_until_its_rate_is_within_the_quota(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE)
    client = SimulatedClient(broker, "p")
    # The rate is computed over ten seconds, because the request is in the first sample.
    wait_ms = throttled_produce(client, 2_000)
    body_bytes = wait_ms * RATE // 1_000 + RATE * 10
    assert 2_000 < body_bytes < 2_200
    assert is_muted(client)
    broker.env.advance(wait_ms - 1)
    assert is_muted(client)
    broker.env.advance(1)
    assert not is_muted(client)


def test_client_without_a_quota_is_not_throttled(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE)
    assert throttled_produce(SimulatedClient(broker, "q"), 100_000) == 0
    assert throttled_produce(SimulatedClient(broker, "p"), 100_000) > 0


def test_throttled_consumer_gets_an_empty_response_that_uses_no_quota(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "c"}, consumer_byte_rate=RATE)
    SimulatedClient(broker, "p").call(produce(700), 9)
    client = SimulatedClient(broker, "c")
    first = client.call(fetch(), 11)
    assert first.throttle_time_ms == 0 and first.responses[0].partitions[0].records
    second = client.call(fetch(), 11)
    assert second.throttle_time_ms > 0 and second.responses == [] and second.session_id == 0
    broker.env.advance(second.throttle_time_ms)
    # The bytes of the throttled response were not recorded, so the rate has fallen.
    third = client.call(fetch(), 11)
    assert third.throttle_time_ms < second.throttle_time_ms
    broker.env.advance(11_000)
    assert client.call(fetch(), 11).responses[0].partitions[0].records


def test_throttled_fetch_neither_opens_nor_changes_a_session(broker: SimulatedBroker) -> None:
    client, other = SimulatedClient(broker, "c"), SimulatedClient(broker, "c")
    SimulatedClient(broker, "p").call(produce(900), 9)
    session = client.call(fetch(session_epoch=0, partition_max_bytes=0), 11).session_id
    assert session
    # Any response with a batch is too large for the quota.
    alter(broker, {"client_id": "c"}, consumer_byte_rate=RATE / 2)
    SimulatedClient(broker, "p").call(produce(900), 9)
    throttled = other.call(fetch(session_epoch=0), 11)
    assert throttled.throttle_time_ms > 0 and throttled.session_id == 0 and throttled.responses == []
    assert len(broker.broker.fetch_sessions) == 1
    throttled = client.call(fetch(session_id=session, session_epoch=1), 11)
    assert throttled.throttle_time_ms > 0 and throttled.session_id == session and throttled.responses == []
    alter(broker, {"client_id": "c"}, consumer_byte_rate=None)
    broker.env.advance(throttled.throttle_time_ms)
    # The throttled response left the fetch session unchanged, so the next response still contains the partition.
    unchanged = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=2)
    assert client.call(unchanged, 11).responses[0].partitions[0].high_watermark == 2


def test_fetch_under_a_quota_is_limited_to_the_bytes_of_one_quota_window(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "c"}, consumer_byte_rate=RATE)
    producer = SimulatedClient(broker, "p")
    for _ in range(10):
        producer.call(produce(300), 9)
    client = SimulatedClient(broker, "c")
    # The response has 67 bytes besides the records. A response that exceeds the quota of a whole window would always be throttled.
    assert client.call(fetch(), 11).throttle_time_ms == 670
    answer = client.call(fetch(), 11)
    assert answer.throttle_time_ms == 0 and len(answer.responses[0].partitions[0].records) == RATE * 10


def test_fetches_of_followers_are_not_throttled(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": None}, consumer_byte_rate=1, request_percentage=0.001)
    SimulatedClient(broker, "p").call(produce(100), 9)
    client = SimulatedClient(broker, "f")
    for _ in range(3):
        assert client.call(fetch(replica_id=2), 11).throttle_time_ms == 0
    assert not is_muted(client)


def test_produce_without_acks_is_throttled_without_a_response(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE)
    client = SimulatedClient(broker, "p")
    client.send(produce(5_000, acks=0), 9)
    assert is_muted(client)


def test_throttled_share_group_member_gets_its_records_and_is_muted(broker: SimulatedBroker) -> None:
    member, group = "AAAAAAAAAAAAAAAAAAAAAA", "g"
    client = SimulatedClient(broker, "s")
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])
    assert client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    beat = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=["t"])
    assert client.call(beat).error_code == 0
    client.call(produce(900), 9)
    topic_id = broker.broker.cluster_state.topics["t"].topic_id
    alter(broker, {"client_id": "s"}, consumer_byte_rate=RATE / 2)
    partition = share_fetching.FetchPartition(partition_index=0)
    request = share_fetching.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=0,
        max_wait_ms=1_000,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=10,
        batch_size=10,
        topics=[share_fetching.FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
    answer = client.call(request)
    assert answer.responses[0].partitions[0].acquired_records
    assert answer.throttle_time_ms > 0 and is_muted(client)


def test_client_that_ignores_its_throttle_time_is_not_read_until_that_time_ends(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE)
    client, partition = SimulatedClient(broker, "p"), broker.broker.partitions.find("t", 0)
    assert partition is not None
    frames = b"".join(request_frame(0, 9, number, "p", produce(20)) for number in range(1_000))
    sent = client._connection.get_buffer(-1)
    size = min(len(sent), len(frames))
    sent[:size] = frames[:size]
    client._connection.buffer_updated(size)
    broker.env.settle()
    # The request that exceeded the quota and all earlier requests were handled.
    handled = partition.log.log_end_offset
    assert 5 < handled < 15 and is_muted(client) and client._transport.is_paused
    broker.env.advance(1_000)
    assert partition.log.log_end_offset - handled < 5


def test_removed_quota_does_not_end_a_throttle_time_that_has_begun(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE)
    client = SimulatedClient(broker, "p")
    wait_ms = throttled_produce(client, 2_000)
    alter(broker, {"client_id": "p"}, producer_byte_rate=None)
    assert is_muted(client)
    broker.env.advance(wait_ms)
    assert throttled_produce(client, 100_000) == 0


def test_disconnect_of_a_muted_client_leaves_no_timer(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=1)
    client = SimulatedClient(broker, "p")
    throttled_produce(client, 2_000)
    timer = client._connection._throttle._timer
    assert isinstance(timer, TimedCall) and not timer.is_cancelled
    client.close()
    assert timer.is_cancelled


def test_throttle_time_is_limited_to_the_range_of_its_int32_field(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=1)
    waits_ms = [throttled_produce(SimulatedClient(broker, "p"), 900_000) for _ in range(4)]
    assert waits_ms == sorted(waits_ms) and waits_ms[0] > 850_000_000 and waits_ms[-1] == 2**31 - 1


def new_topic(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)


def test_strict_mutation_quota_refuses_topics_once_it_is_exhausted(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "a"}, controller_mutation_rate=1)
    client = SimulatedClient(broker, "a")
    # The token bucket has 11 tokens, and a single change may exhaust it.
    first = client.call(new_topic("x", 20), 6)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
    second = client.call(new_topic("y", 1), 6)
    assert (second.topics[0].error_code, second.throttle_time_ms) == (Code.THROTTLING_QUOTA_EXCEEDED, 9_000)
    assert second.topics[0].error_message == "The throttling quota has been exceeded."
    assert is_muted(client)
    broker.env.advance(9_000)
    assert client.call(new_topic("y", 1), 6).topics[0].error_code == 0
    refused = client.call(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="y", count=3, assignments=None)], timeout_ms=1, validate_only=False
        ),
        3,
    )
    assert refused.results[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED and refused.throttle_time_ms == 1_000
    broker.env.advance(1_000)
    deleted = client.call(DeleteTopicsRequest(topics=[], topic_names=["x"], timeout_ms=1_000), 5)
    assert deleted.responses[0].error_code == 0
    deleted = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="y")], timeout_ms=1_000), 6)
    assert deleted.responses[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED and deleted.throttle_time_ms == 20_000


def test_permissive_mutation_quota_throttles_older_clients(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "a"}, controller_mutation_rate=1)
    client = SimulatedClient(broker, "a")
    first = client.call(new_topic("x", 20), 5)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 9_000)
    assert is_muted(client)


def test_invalid_topics_use_no_mutation_quota(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "a"}, controller_mutation_rate=1)
    client = SimulatedClient(broker, "a")
    for _ in range(3):
        assert client.call(new_topic("t", 20), 6).topics[0].error_code == Code.TOPIC_ALREADY_EXISTS
        assert client.call(new_topic("..", 20), 6).topics[0].error_code == Code.INVALID_TOPIC_EXCEPTION
    assert client.call(new_topic("x", 20), 6).throttle_time_ms == 0


def test_topics_are_not_created_automatically_beyond_the_mutation_quota(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "a"}, controller_mutation_rate=1)
    client = SimulatedClient(broker, "a")
    client.call(new_topic("x", 20), 6)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    assert client.call(wanted, 9).topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    broker.env.advance(10_000)
    assert client.call(wanted, 9).topics[0].error_code == 0


def test_connection_above_the_rate_quota_of_its_ip_address_is_closed_within_a_second(broker: SimulatedBroker) -> None:
    # Simulated clients have no address, so the default quota applies.
    alter(broker, {"ip": None}, connection_creation_rate=1)
    versions = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    accepted = [SimulatedClient(broker, "c") for _ in range(10)]
    assert all(client.call(versions).error_code == 0 for client in accepted)
    refused = SimulatedClient(broker, "c")
    began_ms = broker.env.steady_ms()
    assert refused._transport.is_paused
    with pytest.raises(Closed):
        refused.receive((18, 4))
    assert broker.env.steady_ms() - began_ms <= 1_000
    broker.env.advance(11_000)
    assert SimulatedClient(broker, "c").call(versions).error_code == 0


def test_request_needs_the_same_work_with_ten_thousand_quotas_as_with_one(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE)
    client = SimulatedClient(broker, "p")
    client.call(produce(1), 9)
    for first in range(0, 9_999, 500):
        entries = [
            altering.EntryData(
                entity=[altering.EntityData(entity_type="user", entity_name=f"u{number}")],
                ops=[altering.OpData(key="producer_byte_rate", value=1.0, remove=False)],
            )
            for number in range(first, min(first + 500, 9_999))
        ]
        SimulatedClient(broker, "admin").call(altering.AlterClientQuotasRequest(entries=entries, validate_only=False))
    quotas = broker.broker.quotas
    assert len(quotas.entities) == 10_000
    assert len(quotas.managers.produce.limits.by_entity) == 10_000
    meter = LineMeter()
    meter.run(lambda: client.call(produce(1), 9))
    assert meter.longest < 2_000
    # Applying one further quota change does not apply the earlier 10,000 changes again.
    alter(broker, {"user": "u1"}, producer_byte_rate=None)
    meter.longest = 0
    assert meter.run(lambda: quotas.managers).produce.limits.by_entity
    assert meter.longest < 100
    assert throttled_produce(client, 2_000) > 0


def test_clients_of_an_authenticated_user_share_its_quota(broker: SimulatedBroker) -> None:
    alter(broker, {"user": "alice"}, producer_byte_rate=RATE)
    with broker.connect_as("alice") as alice, broker.connect_as("bob") as bob:
        assert throttled_produce(alice, 2_000) > 0
        assert throttled_produce(bob, 100_000) == 0
    assert throttled_produce(SimulatedClient(broker, "alice"), 100_000) == 0
    alter(broker, {"user": "ANONYMOUS"}, producer_byte_rate=RATE)
    assert throttled_produce(SimulatedClient(broker, "x"), 2_000) > 0


def test_transaction_of_a_throttled_producer_continues_after_the_throttle_time(broker: SimulatedBroker) -> None:
    alter(broker, {"client_id": "p"}, producer_byte_rate=RATE, request_percentage=0.000001)
    client = SimulatedClient(broker, "p")
    began_ms = broker.env.steady_ms()
    assert client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4).throttle_time_ms == 1_000
    begun = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
    values = [(None, bytes(2_000))]
    raw = build_batch(values, 0, producer_id=begun.producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(raw))])]
    produced = client.call(ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=data), 12)
    assert produced.responses[0].partition_responses[0].error_code == 0 and produced.throttle_time_ms > 10_000
    ended = client.call(
        EndTxnRequest(transactional_id="x", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, committed=True), 5
    )
    assert ended.error_code == 0 and ended.throttle_time_ms == 1_000
    assert broker.env.steady_ms() - began_ms >= produced.throttle_time_ms


def test_broker_without_quotas_measures_no_rates(broker: SimulatedBroker) -> None:
    client = SimulatedClient(broker, "p")
    throttled_produce(client, 100_000)
    assert broker.broker.quotas._managers is None
