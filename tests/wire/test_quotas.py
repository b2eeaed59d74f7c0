"""Stock clients under quotas: they are throttled, and lose nothing."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.admin.quotas import alter_quotas
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
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
