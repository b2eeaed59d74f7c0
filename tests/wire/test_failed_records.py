"""No client library commits a transaction in which the broker refused a record."""

from __future__ import annotations

import uuid

import pytest

import ottla
from tests.wire.clients import Client

pytestmark = [pytest.mark.wire, pytest.mark.full]


@pytest.mark.parametrize("error", ["INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"])
def test_transaction_commit_raises_after_a_refused_record(client: Client, error: str) -> None:
    with ottla.Broker() as broker:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        broker.create_topic(topic, 1)
        producer = client.producer(broker.bootstrap, transactional_id="id", transaction_timeout_ms=5_000)
        producer.init()
        broker.faults.add(api="Produce", error=error, times=None)
        producer.begin()
        producer.send(topic, b"refused", partition=0)
        with pytest.raises(Exception):  # noqa: B017 - each library has its own
            producer.commit()
        producer.close()
        assert broker.records(topic) == []
