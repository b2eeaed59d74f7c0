"""Tests that each order has one invoice, even after failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from billing import GROUP, INVOICES, ORDERS, TRANSACTION_TIMEOUT_S, Worker
from confluent_kafka import KafkaException, Producer

from ottla import Broker
from ottla.client import ClientError

COUNT = 20


@pytest.fixture
def worker(ottla: Broker) -> Iterator[Callable[..., Worker]]:
    """Return a function that creates workers, which are closed after the test."""
    made: list[Worker] = []

    def make(name: str = "billing-1") -> Worker:
        made.append(Worker(ottla.bootstrap, name))
        return made[-1]

    ottla.create_topic(ORDERS, partitions=1)
    ottla.create_topic(INVOICES, partitions=1)
    yield make
    for one in made:
        one.close()


def order(broker: Broker, count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(ORDERS, json.dumps({"id": number, "price": 5, "count": 2}))
    assert producer.flush(10) == 0


def billed(broker: Broker) -> list[int]:
    """Return the orders with a committed invoice."""
    return sorted(json.loads(record.value or b"{}")["order"] for record in broker.records(INVOICES))


def bill_all(broker: Broker, worker: Worker, count: int = COUNT, within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        worker.bill()
        try:
            if len(billed(broker)) >= count:
                return
        except ClientError:
            # Requests fail while the broker restarts.
            continue


@pytest.mark.ottla(fresh=True)
def test_each_order_has_one_invoice(ottla: Broker, worker: Callable[..., Worker]) -> None:
    order(ottla)
    bill_all(ottla, worker())
    assert billed(ottla) == list(range(COUNT))
    assert sum(ottla.lag(GROUP).values()) == 0


@pytest.mark.ottla(fresh=True)
def test_commit_with_a_lost_response_takes_effect_once(ottla: Broker, worker: Callable[..., Worker]) -> None:
    """The commit takes effect, but the worker gets no response and retries."""
    order(ottla)
    with ottla.faults.add(api="EndTxn", cut="after") as lost:
        bill_all(ottla, worker())
        lost.wait()
    assert billed(ottla) == list(range(COUNT))


@pytest.mark.ottla(fresh=True)
def test_coordinator_killed_before_its_markers_completes_the_transaction(ottla: Broker, worker: Callable[..., Worker]) -> None:
    """The decision is in the log of the coordinator, so after the restart the retried commit succeeds."""
    order(ottla)
    first = worker()
    ottla.faults.add(kill="after-prepare")
    with ThreadPoolExecutor(1) as beside:
        billing = beside.submit(bill_all, ottla, first)
        ottla.wait_for(lambda: not ottla.is_running, 30)
        ottla.restart(kill=True)
        billing.result(60)
    assert billed(ottla) == list(range(COUNT))


@pytest.mark.ottla(fresh=True, clock="manual")
def test_hanging_worker_blocks_readers_until_its_timeout(ottla: Broker, worker: Callable[..., Worker]) -> None:
    hanging = worker("billing-0")
    hanging.producer.begin_transaction()
    hanging.producer.produce(INVOICES, b"never")
    hanging.producer.flush(10)
    order(ottla)
    hanging.close()
    assert ottla.wait_for(worker().bill, 30) == COUNT
    assert billed(ottla) == [], "the open transaction hides later records"
    ottla.clock.advance(f"{TRANSACTION_TIMEOUT_S + 1}s")
    assert billed(ottla) == list(range(COUNT))


@pytest.mark.ottla(fresh=True)
def test_second_worker_with_the_same_id_fences_the_first(ottla: Broker, worker: Callable[..., Worker]) -> None:
    first, second = worker(), worker()
    order(ottla)
    first.consumer.close()
    bill_all(ottla, second)
    with pytest.raises(KafkaException) as fenced:
        first.producer.begin_transaction()
        first.producer.produce(INVOICES, b"late")
        first.producer.commit_transaction(10)
    assert fenced.value.args[0].fatal()
    assert billed(ottla) == list(range(COUNT))
