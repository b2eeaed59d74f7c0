"""Requests that need a coordinator's topic while it does not exist. The expected responses are Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

TRANSACTION = 1


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> SimulatedClient:
    return broker.connect()


@pytest.mark.parametrize(
    "request_",
    [
        ShareGroupDescribeRequest(group_ids=["g"]),
        DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)]),
        AlterShareGroupOffsetsRequest(group_id="g", topics=[]),
        DeleteShareGroupOffsetsRequest(group_id="g", topics=[]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_share_group_apis_explain_a_missing_share_coordinator(client: SimulatedClient, request_: Any) -> None:
    response = client.call(request_)
    (refused,) = getattr(response, "groups", [response])
    assert (refused.error_code, refused.error_message) == (Code.NOT_COORDINATOR, "This is not the correct coordinator.")


def test_transaction_completes_although_consumer_offsets_has_fewer_partitions(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    """AddOffsetsToTxn is handled while 50 partitions of ``__consumer_offsets`` are expected. Then the topic gets one partition."""
    client.call(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]))
    broker.sleep(100)
    producer = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
    assert producer.error_code == Code.NONE
    identity = {"transactional_id": "x", "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    assert client.call(AddOffsetsToTxnRequest(**identity, group_id="g")).error_code == Code.NONE
    topic = CreatableTopic(name=OFFSETS_TOPIC, num_partitions=1, replication_factor=1)
    assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000)).topics[0].error_code == Code.NONE
    assert client.call(EndTxnRequest(**identity, committed=True), 4).error_code == Code.NONE
    broker.sleep(1_000)
    (state,) = client.call(DescribeTransactionsRequest(transactional_ids=["x"])).transaction_states
    assert state.transaction_state == "CompleteCommit"
