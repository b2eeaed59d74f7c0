"""Tests of an application that uses Kafka at $KAFKA_BOOTSTRAP: a consumer reads an order only after its transaction was
committed."""

import os
from uuid import uuid4

from confluent_kafka import Consumer, Producer

BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
TIMEOUT_S = 60


def test_only_committed_orders_are_read():
    number = str(uuid4())
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"orders-{number}"})
    producer.init_transactions(TIMEOUT_S)
    for value, end in ((f"aborted {number}", producer.abort_transaction), (f"paid {number}", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": number, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        own = []
        while f"paid {number}" not in own:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None and message.error() is None
            own.append(message.value().decode())
        assert f"aborted {number}" not in own
    finally:
        consumer.close()
