"""Copies records exactly once with librdkafka. Arguments: BOOTSTRAP GROUP_PROTOCOL GROUP TRANSACTIONAL_ID INPUT OUTPUT.

The program prints errors, and exits when its standard input is closed.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS = 20
PAUSE_S = 0.02
TRANSACTION_TIMEOUT_MS = 4_000
CALL_TIMEOUT_S = 60

bootstrap, protocol, group, transactional_id, source, target = sys.argv[1:]


def say(text: str) -> None:
    print(text, flush=True)


def initialised() -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    return producer


def subscribed() -> Consumer:
    classic = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 300} if protocol == "classic" else {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.protocol": protocol,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
            **classic,
        }
    )

    def taken(_: Consumer, partitions: list[TopicPartition]) -> None:
        # librdkafka calls this callback in consume() when a member that was removed from the group rejoins, not in a transaction.
        say(f"lost {len(partitions)}")

    consumer.subscribe([source], on_lost=taken)
    return consumer


def copy(producer: Producer, messages: list[Message], member: Any) -> None:
    following: dict[int, int] = {}
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, message.value(), message.key(), partition=message.partition())
        following[message.partition()] = message.offset() + 1
    producer.flush(CALL_TIMEOUT_S)
    time.sleep(PAUSE_S)
    offsets = [TopicPartition(source, partition, offset) for partition, offset in following.items()]
    producer.send_offsets_to_transaction(offsets, member, CALL_TIMEOUT_S)
    producer.commit_transaction(CALL_TIMEOUT_S)


def aborted(producer: Producer) -> Producer:
    try:
        producer.abort_transaction(CALL_TIMEOUT_S)
        return producer
    except KafkaException:
        producer.purge()
        return initialised()


def rewind(consumer: Consumer) -> None:
    for at in consumer.committed(consumer.assignment(), CALL_TIMEOUT_S):
        consumer.seek(TopicPartition(at.topic, at.partition, at.offset if at.offset >= 0 else OFFSET_BEGINNING))


def main() -> None:
    source_of_input = threading.Thread(target=sys.stdin.read, daemon=True)
    source_of_input.start()
    producer, consumer = initialised(), subscribed()
    while source_of_input.is_alive():
        messages = [message for message in consumer.consume(RECORDS, 0.1) if message.error() is None]
        if not messages:
            continue
        try:
            copy(producer, messages, consumer.consumer_group_metadata())
        except KafkaException as failure:
            say(f"failed {failure}")
            producer = aborted(producer)
            rewind(consumer)
    consumer.close()
    say("closed")


main()
