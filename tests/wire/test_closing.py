"""After the tests' own clients are closed, none of the clients' threads is left."""

from __future__ import annotations

import threading

import pytest

from ottla import Broker
from tests.wire.clients.kafka_python import KafkaPython

pytestmark = pytest.mark.wire

ENDS_WITHIN_S = 10


def test_stock_producer_with_an_unacknowledged_batch_closes_without_a_leftover_thread() -> None:
    # A remaining thread would run during other tests, and use random numbers where Hypothesis does not allow it.
    with Broker() as broker:
        broker.create_topic("t")
        before = set(threading.enumerate())
        producer = KafkaPython().producer(broker.bootstrap)
        producer.send("t", b"first", partition=0)
        producer.flush()
        broker.pause()
        producer.send("t", b"held", partition=0)
        producer.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive()
        broker.resume()
