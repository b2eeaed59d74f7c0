"""A stock client's transactions through a container's published port."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, Producer


def commit(bootstrap: str, security: Mapping[str, str] | None = None) -> list[bytes]:
    """Abort a transaction, commit another one, and return the values that a read-committed consumer then reads.

    ``security`` has librdkafka's settings for a listener with TLS or SASL.
    """
    settings = {"bootstrap.servers": bootstrap, **(security or {})}
    producer = Producer({**settings, "transactional.id": "orders"})
    producer.init_transactions(60)
    for value, ends in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush(60)
        ends(20)
    consumer = Consumer(
        {
            **settings,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.subscribe(["orders"])
        return [message.value() for message in consumer.consume(1, 20)]
    finally:
        consumer.close()
