"""Stock clients under quotas: they are throttled, and lose nothing."""

from __future__ import annotations

import select
import time
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.admin.quotas import alter_quotas
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import batches
from tests.support.batches import batch, record
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.wire

RECORDS, VALUE_BYTES = 40, 10_000
"""The records of a test: 400,000 bytes, and a quota of 35,000 bytes a second lets 350,000 of them pass at once."""
RATE = 35_000


def set_quotas(broker: Broker, client_id: str, **values: float) -> None:
    with KafkaClient(broker.bootstrap) as client:
        alter_quotas(client.brokers, {"client-id": client_id}, values)


def test_librdkafka_is_throttled_by_quotas_and_writes_and_reads_all_records() -> None:
    throttled: list[float] = []
    with Broker() as broker:
        set_quotas(broker, "app", producer_byte_rate=RATE, consumer_byte_rate=RATE)
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "client.id": "app",
                "transactional.id": "x",
                "batch.size": 4 * VALUE_BYTES,
                "throttle_cb": lambda event: throttled.append(event.throttle_time),
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce("t", bytes([number]) * VALUE_BYTES)
        producer.commit_transaction(60)
        assert max(throttled) > 0
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "client.id": "app",
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 4 * VALUE_BYTES,
            }
        )
        consumer.subscribe(["t"])
        values = [message.value()[0] for message in consumer.consume(RECORDS, timeout=60) if not message.error()]
        consumer.close()
        assert values == list(range(RECORDS))


def test_manual_clock_ends_a_throttle_time_at_once() -> None:
    with Broker(clock="manual") as broker:
        set_quotas(broker, "app", controller_mutation_rate=1)

        def create(client: RawClient, name: str) -> tuple[int, int]:
            topic = CreatableTopic(name=name, num_partitions=100, replication_factor=1)
            answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
            return answer.topics[0].error_code, answer.throttle_time_ms

        with RawClient(broker.bootstrap, "app") as client:
            assert create(client, "a") == (0, 89_000)
            sent = client.send(CreateTopicsRequest(topics=[], timeout_ms=10_000), 5)
            began_s = time.monotonic()
            broker.clock.advance("89s")
            assert client.receive(sent).topics == []
            assert time.monotonic() - began_s < 60
            assert create(client, "b") == (0, 100_000)


def produce(size_bytes: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(record(value=bytes(size_bytes))))
    return ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(offset: int, most_bytes: int = 1) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=most_bytes)
    return FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[partition])])


def is_muted(broker: Broker, client: RawClient) -> bool:
    """Whether a request of the client stays unanswered, although the broker has answered a later request of another client."""
    with RawClient(broker.bootstrap, "another") as another:
        another.call(MetadataRequest(topics=[]), 9)
    return not select.select([client.socket], [], [], 0)[0]


def metric(broker: Broker, name: str) -> float:
    """The value of a metric for the client id ``app``."""
    with urllib.request.urlopen(broker.ready["metrics"]) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    of_app = {"user": "", "client_id": "app"}
    samples = [sample for family in families for sample in family.samples if sample.name == f"kafka_server_{name}"]
    return next(sample.value for sample in samples if sample.labels == of_app)


def end_throttling(broker: Broker, client: RawClient, throttle_ms: int) -> None:
    """Advance the clock by a throttle time, which ends the mute of the client exactly then."""
    sent = client.send(MetadataRequest(topics=[]), 9)
    broker.clock.advance(f"{throttle_ms - 1}ms")
    assert is_muted(broker, client)
    broker.clock.advance("1ms")
    assert client.receive(sent).topics == []


def test_manual_clock_ends_the_throttle_times_of_producers_and_consumers() -> None:
    """The quota is 10,000 bytes a second, so ten seconds allow one of the two batches."""
    with Broker(clock="manual", settings={"ottla.metrics.port": 0}) as broker:
        broker.create_topic("t", 1)
        set_quotas(broker, "app", producer_byte_rate=10_000, consumer_byte_rate=10_000)
        with RawClient(broker.bootstrap, "app") as client:
            assert client.call(produce(60_000), 9).throttle_time_ms == 0
            throttle_ms = client.call(produce(60_000), 9).throttle_time_ms
            rate = metric(broker, "produce_byte_rate")
            assert 12_000 <= rate < 12_100
            # The time until the rate is the quota: as long as the window's bytes take, less the window.
            assert throttle_ms == round((rate * 10 - 100_000) / 10_000 * 1_000)
            assert metric(broker, "produce_throttle_time") == throttle_ms
            end_throttling(broker, client, throttle_ms)

            first = client.call(fetch(0), 11)
            assert first.throttle_time_ms == 0
            assert len(list(batches(first.responses[0].partitions[0].records))) == 1
            rate = metric(broker, "fetch_byte_rate")
            throttled = client.call(fetch(1), 11)
            assert throttled.responses == []
            # The bytes of a response that a throttled consumer does not get are not counted.
            assert metric(broker, "fetch_byte_rate") == rate
            assert metric(broker, "fetch_throttle_time") == throttled.throttle_time_ms > 0
            end_throttling(broker, client, throttled.throttle_time_ms)
            broker.clock.advance("11s")
            assert metric(broker, "fetch_byte_rate") < rate
            assert client.call(fetch(1), 11).responses[0].partitions[0].records


def test_metrics_show_the_tokens_and_the_throttle_time_of_topic_creations() -> None:
    with Broker(clock="manual", settings={"ottla.metrics.port": 0}) as broker:
        set_quotas(broker, "app", controller_mutation_rate=1)
        topic = CreatableTopic(name="t", num_partitions=100, replication_factor=1)
        with RawClient(broker.bootstrap, "app") as client:
            assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).throttle_time_ms == 89_000
            assert metric(broker, "controllermutation_throttle_time") == 89_000
            assert metric(broker, "controllermutation_tokens") == -89
            assert metric(broker, "controllermutation_mutation_rate") == pytest.approx(100 / 30)
            broker.clock.advance("50s")
            assert metric(broker, "controllermutation_tokens") == -39
            assert metric(broker, "controllermutation_mutation_rate") == 2
