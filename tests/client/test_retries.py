"""The broker to which the client sends a request, the errors that it retries, and the deadline of retries."""

from __future__ import annotations

import pytest

from ottla.client.admin import topics
from ottla.client.admin.groups import list_groups
from ottla.client.admin.offsets import EARLIEST, list_offsets
from ottla.client.admin.transactions import describe, list_transactions
from ottla.client.errors import ClientError, KafkaAnswered, Unreachable
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.list_transactions import ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as ListedTransaction
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

TWO = metadata(nodes={1: "kafka", 2: "second"}, leaders={"t": [1, 2, 1]})


def offsets_of(request: ListOffsetsRequest, error_code: int = 0) -> ListOffsetsResponse:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=p.partition_index, offset=10 * p.partition_index, error_code=error_code)
        for p in request.topics[0].partitions
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=request.topics[0].name, partitions=partitions)])


def test_client_sends_each_leader_one_request_for_all_its_partitions() -> None:
    first, second = (ScriptedBroker(answers={"Metadata": [TWO], "ListOffsets": offsets_of}) for _ in range(2))
    assert list_offsets(ScriptedCluster(kafka=first, second=second).brokers(), "t", [0, 1, 2], EARLIEST) == {0: 0, 1: 10, 2: 20}
    assert (first.names().count("ListOffsets"), second.names().count("ListOffsets")) == (1, 1)


def test_client_retries_a_request_at_the_new_leader() -> None:
    moved = metadata(nodes={1: "kafka", 2: "second"}, leaders={"t": [2]})
    old = metadata(nodes={1: "kafka", 2: "second"}, leaders={"t": [1]})
    first = ScriptedBroker(
        answers={"Metadata": [old, moved], "ListOffsets": lambda request: offsets_of(request, Code.NOT_LEADER_OR_FOLLOWER)}
    )
    second = ScriptedBroker(answers={"ListOffsets": offsets_of})
    world = ScriptedCluster(kafka=first, second=second)
    assert list_offsets(world.brokers(), "t", [0], EARLIEST) == {0: 0}
    assert world.pauses == [0.05]


def test_client_reports_a_persistent_error_at_its_deadline() -> None:
    leaderless = metadata(nodes={1: "kafka"}, leaders={"t": [-1]})
    world = ScriptedCluster(kafka=ScriptedBroker(answers={"Metadata": [leaderless]}))
    with pytest.raises(KafkaAnswered, match="LEADER_NOT_AVAILABLE") as raised:
        list_offsets(world.brokers(timeout_s=3), "t", [0], EARLIEST)
    assert raised.value.code == Code.LEADER_NOT_AVAILABLE
    assert sum(world.pauses) == pytest.approx(3)
    assert max(world.pauses) <= 1.0


def test_client_reports_an_unknown_topic_at_once() -> None:
    world = ScriptedCluster(kafka=ScriptedBroker(answers={"Metadata": [metadata(nodes={1: "kafka"}, leaders={}, missing=("no",))]}))
    with pytest.raises(KafkaAnswered, match=r"unknown topic 'no' at kafka:9092.*create it first") as raised:
        list_offsets(world.brokers(), "no", [0], EARLIEST)
    assert raised.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert not world.pauses


def test_client_reports_an_unreachable_advertised_broker() -> None:
    world = ScriptedCluster(kafka=ScriptedBroker(answers={"Metadata": [metadata(nodes={7: "inside"}, leaders={"t": [7]})]}))
    with pytest.raises(Unreachable, match=r"broker 7, which the cluster says is at inside:9092 \(advertised.listeners\)"):
        list_offsets(world.brokers(timeout_s=1), "t", [0], EARLIEST)


def created(code: int = 0) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code, error_message=None)])


def test_topic_creation_waits_until_its_partitions_have_leaders() -> None:
    none = metadata(nodes={1: "kafka"}, leaders={}, missing=("t",))
    waiting = metadata(nodes={1: "kafka"}, leaders={"t": [-1]})
    ready = metadata(nodes={1: "kafka"}, leaders={"t": [1]})
    broker = ScriptedBroker(answers={"Metadata": [none, none, waiting, ready], "CreateTopics": [created(41), created()]})
    topics.create(ScriptedCluster(kafka=broker).brokers(), "t", 1)
    assert broker.names().count("CreateTopics") == 2, "CreateTopics is retried when the broker is no longer the controller"


def test_creation_of_an_existing_topic_is_refused_with_a_remedy() -> None:
    broker = ScriptedBroker(answers={"Metadata": [TWO], "CreateTopics": [created(36)]})
    with pytest.raises(KafkaAnswered, match=r"topic 't' already exists: TOPIC_ALREADY_EXISTS.*ottla topic describe t") as raised:
        topics.create(ScriptedCluster(kafka=broker).brokers(), "t", 1)
    assert raised.value.code == Code.TOPIC_ALREADY_EXISTS


def test_groups_of_all_brokers_are_listed() -> None:
    def listing(*names: str) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[ListedGroup(group_id=n, group_state="Empty", group_type="consumer") for n in names])

    first = ScriptedBroker(answers={"Metadata": [TWO], "ListGroups": [listing("b")]})
    second = ScriptedBroker(answers={"ListGroups": [listing("a", "c")]})
    groups = list_groups(ScriptedCluster(kafka=first, second=second).brokers())
    assert [(g.group_id, g.coordinator) for g in groups] == [("a", 2), ("b", 1), ("c", 2)]


LISTS = {
    "ListGroups": (list_groups, ListGroupsResponse(groups=[ListedGroup(group_id="a", group_state="Empty")])),
    "ListTransactions": (
        list_transactions,
        ListTransactionsResponse(transaction_states=[ListedTransaction(transactional_id="a", producer_id=7)]),
    ),
}


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), TimeoutError()])
@pytest.mark.parametrize("name", LISTS)
def test_groups_are_listed_although_one_broker_is_silent(name: str, error: OSError) -> None:
    ask, answer = LISTS[name]
    first = ScriptedBroker(answers={"Metadata": [TWO], name: [answer]})
    world = ScriptedCluster(kafka=first, second=ScriptedBroker(refuses=error))
    silent: list[ClientError] = []
    assert [listing.coordinator for listing in ask(world.brokers(), silent=silent)] == [1]
    assert len(silent) == 1
    assert "of broker 2: " in str(silent[0])
    # Without ``silent`` the call fails, so that a caller does not treat a group of the silent broker as missing.
    with pytest.raises(type(silent[0])):
        ask(world.brokers())


@pytest.mark.parametrize("version", [0, 3, 6])
def test_client_waits_for_a_loading_coordinator(version: int) -> None:
    found = FindCoordinatorResponse(
        node_id=1, host="kafka", port=9092, coordinators=[Coordinator(key="x", node_id=1, host="kafka", port=9092)]
    )
    states = [
        DescribeTransactionsResponse(transaction_states=[TransactionState(error_code=code, transactional_id="x")])
        for code in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR, Code.NONE)
    ]
    broker = ScriptedBroker(
        answers={"FindCoordinator": [found], "DescribeTransactions": [*states]}, versions={"FindCoordinator": (0, version)}
    )
    assert describe(ScriptedCluster(kafka=broker).brokers(), "x").transactional_id == "x"
    assert broker.names().count("FindCoordinator") == 3
