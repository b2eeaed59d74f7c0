"""The transactions that hold back partitions, of a cluster some of whose brokers refuse or do not answer."""

from __future__ import annotations

import pytest

from ottla.client.explain.diagnosis import holding_ids
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.protocol.messages.list_transactions import ListTransactionsResponse, TransactionState
from tests.client.scripted import Answer, ScriptedBroker, ScriptedCluster, metadata

PARTITIONS = [("t", 0), ("t", 1), ("t", 2)]


def described(request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Describe producer 10 in partition 0, producer 11 in partition 1 and so on."""
    topics = []
    for topic in request.topics:
        producers = {
            index: [ProducerState(producer_id=10 + index, current_txn_start_offset=5)] for index in topic.partition_indexes
        }
        partitions = [PartitionResponse(partition_index=index, active_producers=of) for index, of in producers.items()]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def cluster(*, describes: Answer = None, lists: Answer = None) -> ScriptedCluster:
    """A cluster whose third broker gives the responses ``describes`` and ``lists``."""
    given = metadata(nodes={1: "kafka", 2: "second", 3: "third"}, leaders={"t": [1, 2, 3]})
    states = [TransactionState(transactional_id=f"id-{at}", producer_id=10 + at, transaction_state="Ongoing") for at in range(3)]
    listed = [ListTransactionsResponse(transaction_states=[state]) for state in states]
    every = {"Metadata": [given], "DescribeProducers": described}
    first, second = (ScriptedBroker({**every, "ListTransactions": [one]}) for one in listed[:2])
    third = {**every, "DescribeProducers": [describes] if describes else described, "ListTransactions": [lists or listed[2]]}
    return ScriptedCluster(kafka=first, second=second, third=ScriptedBroker(third))


def found(cluster: ScriptedCluster) -> dict[tuple[str, int], str]:
    brokers = cluster.brokers()
    return holding_ids(brokers, brokers.metadata(None), PARTITIONS)


def test_transactions_that_hold_back_partitions_come_from_all_leaders_and_coordinators() -> None:
    assert found(cluster()) == {("t", 0): "id-0", ("t", 1): "id-1", ("t", 2): "id-2"}


def refused() -> DescribeProducersResponse:
    denied = PartitionResponse(partition_index=2, error_code=Code.TOPIC_AUTHORIZATION_FAILED)
    return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[denied])])


@pytest.mark.parametrize("answer", [refused(), TimeoutError(), ConnectionResetError(104, "reset")])
def test_leader_without_an_answer_does_not_hide_the_transactions_of_other_leaders(answer: Answer) -> None:
    assert found(cluster(describes=answer)) == {("t", 0): "id-0", ("t", 1): "id-1"}


@pytest.mark.parametrize("answer", [TimeoutError(), ConnectionResetError(104, "reset")])
def test_coordinator_without_an_answer_does_not_hide_the_transactions_of_others(answer: Answer) -> None:
    assert found(cluster(lists=answer)) == {("t", 0): "id-0", ("t", 1): "id-1"}


def test_transactions_that_hold_back_partitions_are_unknown_without_permission_to_list() -> None:
    denied = ListTransactionsResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED)
    assert found(cluster(lists=denied)) == {}
