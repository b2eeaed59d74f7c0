"""The service's tests: each order has one invoice, whatever happens on the way."""

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
    """Makes workers, which are closed at the end."""
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
    """The orders that have an invoice, as a reader of committed records sees them."""
    return sorted(json.loads(record.value or b"{}")["order"] for record in broker.records(INVOICES))


def bill_all(broker: Broker, worker: Worker, count: int = COUNT, within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        worker.bill()
        try:
            if len(billed(broker)) >= count:
                return
        except ClientError:
            # The broker is away for a moment.
            continue


@pytest.mark.ottla(fresh=True)
def test_each_order_has_one_invoice(ottla: Broker, worker: Callable[..., Worker]) -> None:
    order(ottla)
    bill_all(ottla, worker())
    assert billed(ottla) == list(range(COUNT))
    assert sum(ottla.lag(GROUP).values()) == 0


@pytest.mark.ottla(fresh=True)
def test_a_commit_whose_answer_is_lost(ottla: Broker, worker: Callable[..., Worker]) -> None:
    """It took effect, and the worker never hears of it: it asks again."""
    order(ottla)
    with ottla.faults.add(api="EndTxn", cut="after") as lost:
        bill_all(ottla, worker())
        lost.wait()
    assert billed(ottla) == list(range(COUNT))


@pytest.mark.ottla(fresh=True)
def test_a_coordinator_that_dies_between_the_decision_and_its_markers(ottla: Broker, worker: Callable[..., Worker]) -> None:
    """The decision is in its log: after the restart it stands, and the worker that had asked for it hears so."""
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
def test_a_worker_that_hangs_holds_readers_for_a_minute(ottla: Broker, worker: Callable[..., Worker]) -> None:
    hanging = worker("billing-0")
    hanging.producer.begin_transaction()
    hanging.producer.produce(INVOICES, b"never")
    hanging.producer.flush(10)
    order(ottla)
    hanging.close()
    assert ottla.wait_for(worker().bill, 30) == COUNT
    assert billed(ottla) == [], "they stand behind the open transaction"
    ottla.clock.advance(f"{TRANSACTION_TIMEOUT_S + 1}s")
    assert billed(ottla) == list(range(COUNT))


@pytest.mark.ottla(fresh=True)
def test_a_second_worker_of_the_same_name_fences_the_first(ottla: Broker, worker: Callable[..., Worker]) -> None:
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
