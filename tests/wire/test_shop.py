"""The shop from the deep dive into transactions, with each stock client: each purchase causes one invoice and one shipment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla import Broker
from tests.wire.clients import Client, Message, WireProducer
from tests.wire.conftest import read

pytestmark = pytest.mark.wire

PURCHASES = 60
BATCH = 10


class Crash(Exception):
    """Simulates a crash of the worker: nothing is closed, and its transaction stays open."""


def work(
    client: Client, bootstrap: str, topics: tuple[str, str, str], group: str, fault: Callable[[int, str], None], abandon: list[Any]
) -> None:
    """Run the worker until it has read all purchases: it writes both outputs and commits the input offsets in one transaction.

    `fault` may raise `Crash` at each step. `abandon` collects the clients that a crash leaves open.
    """
    purchases, invoices, shipments = topics
    producer: WireProducer = client.producer(bootstrap, transactional_id=group)
    abandon.append(producer)
    producer.init()
    consumer = client.consumer(bootstrap, [purchases], group=group)
    abandon.append(consumer)
    number = 0
    while batch := read(consumer, 1, timeout_s=5, settle_s=0):
        producer.begin()
        for purchase in batch[:]:
            producer.send(invoices, b"invoice " + purchase.value, key=purchase.value)  # type: ignore[operator]
            fault(number, "between invoice and shipment")
            producer.send(shipments, b"shipment " + purchase.value, key=purchase.value)  # type: ignore[operator]
        producer.flush()
        producer.send_offsets(consumer)
        fault(number, "before the end")
        producer.commit()
        number += 1
        if sum(consumer.positions().values()) >= PURCHASES:
            return


@pytest.mark.parametrize("step", ["between invoice and shipment", pytest.param("before the end", marks=pytest.mark.full)])
def test_shop_worker_writes_one_invoice_and_one_shipment_for_each_purchase(
    group_client: Client, bootstrap: str, unique: Callable[[str], str], closing: Callable[[Any], Any], step: str
) -> None:
    topics = (unique("purchases"), unique("invoices"), unique("shipments"))
    group = unique("shop")
    feeder = closing(group_client.producer(bootstrap))
    for i in range(PURCHASES):
        feeder.send(topics[0], b"%d" % i, partition=0)
        if i % BATCH == BATCH - 1:
            feeder.flush()
    lives = 0

    def dies(number: int, at: str) -> None:
        if at == step and lives < 2:
            raise Crash

    abandoned: list[Any] = []
    finished = False
    while not finished:
        try:
            work(group_client, bootstrap, topics, group, dies, abandoned)
            finished = True
        except Crash:
            lives += 1
            # The operating system closes a dead process's connections. The transaction stays open.
            abandoned.pop().close()
    for left in abandoned:
        closing(left)
    assert lives == 2
    for topic, word in zip(topics[1:], (b"invoice", b"shipment"), strict=True):
        consumer = closing(group_client.consumer(bootstrap, [topic], group=unique("audit")))
        messages: list[Message] = read(consumer, PURCHASES)
        assert Counter(m.value for m in messages) == Counter(b"%s %d" % (word, i) for i in range(PURCHASES))


def test_shop_worker_continues_after_a_broker_kill(
    group_client: Client, unique: Callable[[str], str], closing: Callable[[Any], Any]
) -> None:
    topics = ("purchases", "invoices", "shipments")
    with Broker() as broker:
        feeder = group_client.producer(broker.bootstrap)
        for i in range(PURCHASES):
            feeder.send(topics[0], b"%d" % i, partition=0)
        feeder.flush()
        feeder.close()
        killed: list[int] = []

        def kill(number: int, at: str) -> None:
            if not killed and at == "between invoice and shipment":
                killed.append(number)
                broker.restart(kill=True)

        left: list[Any] = []
        work(group_client, broker.bootstrap, topics, "shop", kill, left)
        for left_client in left:
            left_client.close()
        assert killed
        for topic in topics[1:]:
            consumer = group_client.consumer(broker.bootstrap, [topic], group=f"audit-{topic}")
            keys = Counter(m.key for m in read(consumer, PURCHASES))
            consumer.close()
            assert keys == Counter(b"%d" % i for i in range(PURCHASES))
