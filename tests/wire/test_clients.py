"""Tests that run with each of the four stock clients."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla import Broker
from tests.support import oracle
from tests.wire.clients import Client, Fenced
from tests.wire.conftest import read

pytestmark = pytest.mark.wire

MARKERS_S = 60 if os.environ.get("ORACLE") else 0
"""Time until a commit's markers and offsets are visible. Apache Kafka writes them after its response, ottla before."""

Unique = Callable[[str], str]
Closing = Callable[[Any], Any]


def values(messages: list[Any]) -> list[bytes]:
    return [m.value for m in messages]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_consumed_unchanged(
    client: Client, bootstrap: str, unique: Unique, closing: Closing, codec: str | None
) -> None:
    topic = unique("plain")
    sent = [b"%d " % i + b"x" * 100 for i in range(50)]
    producer = closing(client.producer(bootstrap, compression=codec))
    for value in sent:
        producer.send(topic, value, key=b"k")
    producer.flush()
    consumer = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 50)) == sent


def test_librdkafka_lists_all_topics(bootstrap: str, client: Client, unique: Unique, closing: Closing) -> None:
    """librdkafka 2.16 ends its Metadata request for all topics with three extra bytes, which Apache Kafka ignores."""
    from confluent_kafka.admin import AdminClient

    topic = unique("listed")
    producer = closing(client.producer(bootstrap))
    producer.send(topic, b"1")
    producer.flush()
    assert topic in AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=60).topics


@pytest.mark.smoke
def test_read_committed_consumers_get_committed_but_no_aborted_records(
    client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    topic = unique("txn")
    producer = closing(client.producer(bootstrap, transactional_id=unique("id")))
    producer.init()
    for n, end in enumerate(("commit", "abort", "commit", "abort")):
        producer.begin()
        for i in range(5):
            producer.send(topic, b"%s-%d-%d" % (end.encode(), n, i))
        producer.flush()
        getattr(producer, end)()
    committed = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    everything = closing(client.consumer(bootstrap, [topic], group=unique("g"), committed=False))
    assert values(read(committed, 10)) == [b"commit-%d-%d" % (n, i) for n in (0, 2) for i in range(5)]
    assert len(read(everything, 20)) == 20


def test_open_transaction_hides_later_records_from_read_committed_consumers(
    client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    topic = unique("lso")
    producer = closing(client.producer(bootstrap, transactional_id=unique("id")))
    producer.init()
    producer.begin()
    producer.send(topic, b"open", partition=0)
    producer.flush()
    plain = closing(client.producer(bootstrap))
    plain.send(topic, b"behind", partition=0)
    plain.flush()
    consumer = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    assert read(consumer, 1, timeout_s=1.5) == []
    producer.commit()
    assert values(read(consumer, 2)) == [b"open", b"behind"]


def test_offsets_sent_to_a_transaction_are_committed_only_with_it(
    group_client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    source, target, group = unique("in"), unique("out"), unique("g")
    feeder = closing(group_client.producer(bootstrap))
    for i in range(6):
        feeder.send(source, b"%d" % i, partition=0)
    feeder.flush()
    consumer = closing(group_client.consumer(bootstrap, [source], group=group))
    producer = closing(group_client.producer(bootstrap, transactional_id=unique("id")))
    producer.init()
    got = read(consumer, 6)
    assert len(got) == 6
    producer.begin()
    producer.send(target, b"aborted")
    producer.send_offsets(consumer)
    producer.abort()
    assert consumer.committed(source, 0) is None
    producer.begin()
    producer.send(target, b"committed")
    producer.send_offsets(consumer)
    producer.commit()
    # ottla answers EndTxn after the markers are written, and Apache Kafka after the decision is logged.
    oracle.wait_for("the offset is committed", lambda: consumer.committed(source, 0), (6).__eq__, limit_s=MARKERS_S)
    out = closing(group_client.consumer(bootstrap, [target], group=unique("g")))
    assert values(read(out, 1)) == [b"committed"]


@pytest.mark.smoke
def test_zombie_producer_is_fenced(client: Client, bootstrap: str, unique: Unique, closing: Closing) -> None:
    topic, name = unique("zombie"), unique("id")
    zombie = closing(client.producer(bootstrap, transactional_id=name))
    zombie.init()
    zombie.begin()
    zombie.send(topic, b"zombie")
    zombie.flush()
    heir = closing(client.producer(bootstrap, transactional_id=name))
    heir.init()
    heir.begin()
    heir.send(topic, b"heir")
    heir.commit()
    with pytest.raises(Fenced):
        zombie.send(topic, b"zombie again")
        zombie.flush()
        zombie.commit()
    consumer = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 1)) == [b"heir"]


@pytest.mark.entry("RDC-14")
def test_consumer_group_shares_partitions_and_rebalances(
    group_client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    topic, group = unique("shared"), unique("g")
    _create(AIOKafkaAdminClient, NewTopic, bootstrap, topic, partitions=4)
    everything = {(topic, i) for i in range(4)}
    first = closing(group_client.consumer(bootstrap, [topic], group=group))
    _settle([first], lambda parts: parts[0] == everything)
    second = group_client.consumer(bootstrap, [topic], group=group)
    _settle([first, second], lambda parts: [len(p) for p in parts] == [2, 2] and set.union(*parts) == everything)
    second.close()
    _settle([first], lambda parts: parts[0] == everything)


def _create(admin_class: Any, new_topic: Any, bootstrap: str, topic: str, *, partitions: int) -> None:
    import asyncio

    async def make() -> None:
        admin = admin_class(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([new_topic(topic, partitions, 1)])
        finally:
            await admin.close()

    asyncio.run(make())


def _settle(consumers: list[Any], done: Callable[[list[set[Any]]], bool]) -> None:
    """Poll all consumers in parallel until their assignments satisfy `done`.

    A rebalance needs all members at the same time: with kafka-python consumers that are polled in turn, no rebalance completes,
    even with Apache Kafka.
    """
    with ThreadPoolExecutor(len(consumers)) as pool:

        def assignments() -> list[set[Any]]:
            list(pool.map(lambda consumer: consumer.poll(1.0), consumers))
            return [consumer.assignment() for consumer in consumers]

        oracle.wait_for("the group is stable with the expected assignments", assignments, done)


@pytest.mark.parametrize("kill", [pytest.param(False, marks=pytest.mark.full), True], ids=["SIGTERM", "SIGKILL"])
def test_broker_restart_keeps_an_open_transaction_open(client: Client, unique: Unique, closing: Closing, kill: bool) -> None:
    topic = unique("restart")
    with Broker() as broker:
        producer = closing(client.producer(broker.bootstrap, transactional_id="restarted"))
        producer.init()
        producer.begin()
        producer.send(topic, b"first", partition=0)
        producer.commit()
        producer.begin()
        producer.send(topic, b"before", partition=0)
        producer.flush()
        broker.restart(kill=kill)
        consumer = closing(client.consumer(broker.bootstrap, [topic], group="g"))
        received = values(read(consumer, 1, settle_s=1.5))
        assert received == [b"first"], "the transaction stays open across the restart"
        producer.send(topic, b"after", partition=0)
        producer.commit()
        assert values(read(consumer, 2)) == [b"before", b"after"]
        producer.close()
        consumer.close()
        assert broker.stop() == 0


def test_abandoned_transaction_times_out(client: Client, unique: Unique, closing: Closing, bootstrap: str) -> None:
    topic = unique("timeout")
    producer = closing(client.producer(bootstrap, transactional_id=unique("id"), transaction_timeout_ms=3_000))
    producer.init()
    producer.begin()
    producer.send(topic, b"abandoned", partition=0)
    producer.flush()
    plain = closing(client.producer(bootstrap))
    plain.send(topic, b"behind", partition=0)
    plain.flush()
    consumer = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 1, timeout_s=60)) == [b"behind"]
