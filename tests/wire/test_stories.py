"""The failure scenarios that well-known texts on exactly-once describe, each with every stock client.

The deep dive into transactions lists seven failures. KIP-447 describes two consumers and a reassigned partition. KIP-890
describes the hanging transaction of an older client, and how an admin ends it. The introduction to transactions has consume-only,
produce-only and consume-transform-produce.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import Broker
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.raw_client import RawClient
from tests.wire.clients import Client, Fenced, Message, WireConsumer
from tests.wire.conftest import read
from tests.wire.proxy import Proxy
from tests.wire.test_tools import tool

pytestmark = pytest.mark.wire

ASK_FOR_STABLE_OFFSETS = {"confluent-kafka", "java"}
"""Clients that wait for pending offsets (KIP-447). Other clients read again from the previously committed offset."""

Unique = Callable[[str], str]
Closing = Callable[[Any], Any]


def values(messages: list[Message]) -> list[bytes | None]:
    return [m.value for m in messages]


def committed(client: Client, bootstrap: str, topic: str, unique: Unique, closing: Closing, count: int) -> list[bytes | None]:
    return values(read(closing(client.consumer(bootstrap, [topic], group=unique("look"))), count))


@pytest.fixture(scope="module")
def restartable() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.entry("NET-05", "IDM-03")
def test_deep_dive_1_send_with_a_lost_response_is_retried_without_a_duplicate(
    client: Client, unique: Unique, closing: Closing
) -> None:
    proxy = Proxy()
    with Broker(settings={"advertised.listeners": f"PLAINTEXT://{proxy.address}"}) as broker:
        proxy.stand_before(broker.bootstrap)
        producer = client.producer(proxy.address, transactional_id="story", request_timeout_ms=5_000)
        producer.init()
        producer.begin()
        producer.send("story", b"first", partition=0)
        producer.flush()
        proxy.lose_next = 1
        producer.send("story", b"second", partition=0)
        producer.flush()
        producer.commit()
        producer.close()
        assert proxy.lost
        assert committed(client, broker.bootstrap, "story", unique, closing, 2) == [b"first", b"second"]
        proxy.close()


@pytest.mark.entry("INI-03", "INI-07", "PIP-05")
def test_deep_dive_2_next_producer_aborts_the_transaction_of_a_dead_producer(
    client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    topic, name = unique("story"), unique("id")
    first = closing(client.producer(bootstrap, transactional_id=name))
    first.init()
    first.begin()
    first.send(topic, b"of the dead", partition=0)
    first.flush()
    second = closing(client.producer(bootstrap, transactional_id=name))
    second.init()
    second.begin()
    second.send(topic, b"of the living", partition=0)
    second.commit()
    assert committed(client, bootstrap, topic, unique, closing, 1) == [b"of the living"]


@pytest.mark.entry("INI-06", "NET-03", "PIP-11")
def test_deep_dive_3_producer_that_resumes_as_a_zombie_is_fenced(
    client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    topic, name = unique("story"), unique("id")
    zombie = closing(client.producer(bootstrap, transactional_id=name))
    zombie.init()
    zombie.begin()
    zombie.send(topic, b"before the pause", partition=0)
    zombie.flush()
    heir = closing(client.producer(bootstrap, transactional_id=name))
    heir.init()
    with pytest.raises(Fenced):
        zombie.send(topic, b"after the pause", partition=0)
        zombie.flush()
        zombie.commit()
    if client.name == "kafka-python":
        # After an error about its stale epoch, kafka-python's zombie requests a new producer id in the background, which may fence
        # its successor.
        zombie.close()
        heir = closing(client.producer(bootstrap, transactional_id=name))
        heir.init()
    heir.begin()
    heir.send(topic, b"heir", partition=0)
    heir.commit()
    assert committed(client, bootstrap, topic, unique, closing, 1) == [b"heir"]


@pytest.mark.entry("PIP-04")
def test_deep_dive_4_consumer_that_dies_before_its_commit_reads_the_record_again(
    group_client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    """A documented limit of transactions: side effects outside Kafka are repeated."""
    topic, group = unique("story"), unique("g")
    producer = closing(group_client.producer(bootstrap, transactional_id=unique("id")))
    producer.init()
    producer.begin()
    producer.send(topic, b"an invoice", partition=0)
    producer.commit()
    done_outside: list[bytes | None] = []
    for _ in range(2):
        reader = group_client.consumer(bootstrap, [topic], group=group)
        done_outside += values(read(reader, 1))
        reader.close()
    assert done_outside == [b"an invoice"] * 2


@pytest.mark.entry("CRD-05", "IDM-17", "OFF-17")
@pytest.mark.parametrize("kill", [pytest.param(False, marks=pytest.mark.full), True], ids=["stopped", "killed"])
def test_deep_dive_5_6_7_restart_of_leader_and_both_coordinators_loses_no_transaction(
    group_client: Client, restartable: Broker, unique: Unique, closing: Closing, kill: bool
) -> None:
    """One broker has all three roles. It stops between the batches and the commit."""
    source, target, group = unique("in"), unique("out"), unique("g")
    feeder = closing(group_client.producer(restartable.bootstrap))
    for n in range(4):
        feeder.send(source, b"%d" % n, partition=0)
    feeder.flush()
    consumer = closing(group_client.consumer(restartable.bootstrap, [source], group=group))
    producer = closing(group_client.producer(restartable.bootstrap, transactional_id=unique("id")))
    producer.init()
    got = read(consumer, 4)
    producer.begin()
    for message in got[:2]:
        producer.send(target, message.value or b"", partition=0)
    producer.flush()
    restartable.restart(kill=kill)
    for message in got[2:]:
        producer.send(target, message.value or b"", partition=0)
    producer.send_offsets(consumer)
    producer.commit()
    assert committed(group_client, restartable.bootstrap, target, unique, closing, 4) == [b"0", b"1", b"2", b"3"]
    assert consumer.committed(source, 0) == 4


@pytest.mark.entry("OFF-04", "PIP-06")
def test_kip_447_next_owner_of_a_partition_waits_for_pending_offsets(
    group_client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    """Producer P2 dies with pending offset 10. Consumer C1 gets the partition, and must wait and then start at offset 5."""
    source, target, group = unique("in"), unique("out"), unique("g")
    feeder = closing(group_client.producer(bootstrap))
    for n in range(10):
        feeder.send(source, b"%d" % n, partition=0)
    feeder.flush()

    def work(consumer: WireConsumer, name: str, count: int, *, ends: bool, timeout_ms: int = 60_000) -> list[bytes | None]:
        producer = closing(group_client.producer(bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms))
        producer.init()
        got = read(consumer, count, settle_s=0)
        producer.begin()
        for message in got:
            producer.send(target, message.value or b"", partition=0)
        producer.flush()
        producer.send_offsets(consumer)
        if ends:
            producer.commit()
        return values(got)

    c2 = group_client.consumer(bootstrap, [source], group=group)
    first = work(c2, unique("P2"), 1, ends=True)
    feeder.send(source, b"last", partition=0)
    feeder.flush()
    left_open = unique("P2")
    pending = work(c2, left_open, 1, ends=False, timeout_ms=1_500)
    assert pending
    c2.close()
    c1 = closing(group_client.consumer(bootstrap, [source], group=group))
    rest = work(c1, unique("P1"), 11 - len(first), ends=True)
    assert first + rest == [*(b"%d" % n for n in range(10)), b"last"], "each record is read once"
    if group_client.name in ASK_FOR_STABLE_OFFSETS:
        with RawClient(bootstrap) as raw:
            (described,) = raw.call(DescribeTransactionsRequest([left_open])).transaction_states
        assert described.transaction_state != "Ongoing", "C1 waits until the transaction of P2 has ended"
    assert committed(group_client, bootstrap, target, unique, closing, 11) == first + rest


@pytest.mark.entry("PIP-10")
def test_offsets_of_a_transaction_without_records_are_committed_only_with_it(
    group_client: Client, bootstrap: str, unique: Unique, closing: Closing
) -> None:
    source, group = unique("in"), unique("g")
    feeder = closing(group_client.producer(bootstrap))
    feeder.send(source, b"v", partition=0)
    feeder.flush()
    consumer = closing(group_client.consumer(bootstrap, [source], group=group))
    producer = closing(group_client.producer(bootstrap, transactional_id=unique("id")))
    producer.init()
    read(consumer, 1)
    for commit, expected in ((False, None), (True, 1)):
        producer.begin()
        producer.send_offsets(consumer)
        producer.commit() if commit else producer.abort()
        assert consumer.committed(source, 0) == expected


@pytest.mark.entry("MRK-14", "PIP-01")
def test_transaction_commit_flushes_buffered_records(client: Client, bootstrap: str, unique: Unique, closing: Closing) -> None:
    topic = unique("story")
    producer = closing(client.producer(bootstrap, transactional_id=unique("id")))
    producer.init()
    producer.begin()
    for n in range(200):
        producer.send(topic, b"%d" % n, partition=0)
    producer.commit()
    assert committed(client, bootstrap, topic, unique, closing, 200) == [b"%d" % n for n in range(200)]


@pytest.mark.entry("NET-01", "MRK-12", "PRD-18", "CRD-23")
@pytest.mark.java
def test_kip_890_kafkas_own_tool_finds_and_aborts_a_hanging_transaction() -> None:
    """An older client's late batch was not verified: it opened a transaction that no coordinator knows, and that blocks readers."""
    with Broker(settings={"transaction.max.timeout.ms": 1_000, "producer.id.expiration.ms": 60_000}) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in (
            "topic hanging",
            "A = init zombie timeout=1000",
            "broker_config transaction.partition.verification.enable=false",
            "produce A hanging v=9 age=3600000",
            "broker_config transaction.partition.verification.enable=default",
        ):
            perform(world, command)
        assert perform(world, "ends hanging") == "start=0 lso=0 end=1"
        time.sleep(1.5)
        arguments = ("find-hanging", "--max-transaction-timeout", "0", "--broker-id", "1")
        output = tool("TransactionsCommand", broker, *arguments)
        assert re.search(r"hanging\s+0\s+\d+\s+0", output), output
        tool("TransactionsCommand", broker, "abort", "--topic", "hanging", "--partition", "0", "--start-offset", "0")
        assert perform(world, "ends hanging") == "start=0 lso=2 end=2"
        assert perform(world, "read hanging") == "nothing"
        world.close()


@pytest.mark.entry("END-23")
def test_refused_end_txn_is_not_reported_as_a_commit(client: Client, unique: Unique, closing: Closing) -> None:
    """The coordinator's log refuses writes: the client must report an error, and the records stay invisible."""
    with Broker() as broker:
        world = World(Wire(broker), "ottla", "")
        producer = client.producer(broker.bootstrap, transactional_id="unlucky")
        producer.init()
        producer.begin()
        producer.send("unlucky", b"v", partition=0)
        producer.flush()
        perform(world, "hold __transaction_state")
        with pytest.raises(Exception):  # noqa: B017
            producer.commit()
        assert perform(world, "read unlucky") == "nothing"
        perform(world, "release __transaction_state")
        producer.close()
        world.close()


@pytest.mark.entry("NET-15", "NET-09")
def test_repeated_connection_losses_of_a_producer_lose_no_records(client: Client, unique: Unique, closing: Closing) -> None:
    proxy = Proxy()
    with Broker(settings={"advertised.listeners": f"PLAINTEXT://{proxy.address}"}) as broker:
        proxy.stand_before(broker.bootstrap)
        producer = client.producer(proxy.address, transactional_id="patient", request_timeout_ms=5_000)
        producer.init()
        proxy.lose_next = 4
        producer.begin()
        producer.send("patient", b"v", partition=0)
        producer.commit()
        producer.close()
        assert proxy.lose_next == 0
        assert committed(client, broker.bootstrap, "patient", unique, closing, 1) == [b"v"]
        proxy.close()
