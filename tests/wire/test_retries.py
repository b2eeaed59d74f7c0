"""Responses are lost: an idempotent producer retries, and every record is stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import Broker
from tests.wire.clients import Client
from tests.wire.conftest import read
from tests.wire.proxy import Proxy

pytestmark = pytest.mark.wire

ROUNDS = 3


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[Broker, Proxy]]:
    """A broker that advertises a proxy's address, so that all requests go through the proxy."""
    proxy = Proxy()
    settings = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    with Broker(settings=settings) as broker:
        proxy.stand_before(broker.bootstrap)
        yield broker, proxy
        proxy.close()


def test_lost_produce_responses_of_an_idempotent_producer_cause_no_duplicates(
    client: Client, proxied: tuple[Broker, Proxy], unique: Callable[[str], str], closing: Callable[[Any], Any]
) -> None:
    _, proxy = proxied
    bootstrap = f"127.0.0.1:{proxy.port}"
    topic = unique("retried")
    producer = closing(client.producer(bootstrap, request_timeout_ms=5_000))
    producer.send(topic, b"first", partition=0)
    producer.flush()
    lost = proxy.lost
    for n in range(ROUNDS):
        proxy.lose_next = 1
        for i in range(5):
            producer.send(topic, b"%d-%d" % (n, i), partition=0)
        producer.flush()
    assert proxy.lost > lost
    consumer = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    values = [m.value for m in read(consumer, 1 + 5 * ROUNDS)]
    assert values == [b"first", *(b"%d-%d" % (n, i) for n in range(ROUNDS) for i in range(5))]


def test_lost_responses_of_a_transactional_producer_leave_no_partial_transaction(
    client: Client, proxied: tuple[Broker, Proxy], unique: Callable[[str], str], closing: Callable[[Any], Any]
) -> None:
    _, proxy = proxied
    bootstrap = f"127.0.0.1:{proxy.port}"
    topic = unique("torn")
    producer = closing(client.producer(bootstrap, transactional_id=unique("id"), request_timeout_ms=5_000))
    producer.init()
    for n in range(ROUNDS):
        producer.begin()
        for i in range(5):
            producer.send(topic, b"%d-%d" % (n, i), partition=0)
        producer.flush()
        proxy.lose_next = 1
        producer.commit()
    consumer = closing(client.consumer(bootstrap, [topic], group=unique("g")))
    assert [m.value for m in read(consumer, 5 * ROUNDS)] == [b"%d-%d" % (n, i) for n in range(ROUNDS) for i in range(5)]
