"""Who the controller is, and which brokers are fenced."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.description import Controller, describe
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata


def quorum(leader: int, *nodes: Node) -> DescribeQuorumResponse:
    partition = ResponsePartitionData(leader_id=leader)
    topic = ResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumResponse(error_code=0, error_message="", topics=[topic], nodes=list(nodes))


def described(quorum_answer: Any, versions: dict[str, tuple[int, int]] | None = None) -> Any:
    shown = [DescribeClusterBroker(broker_id=n, host=f"b{n}", port=9092, rack=None, is_fenced=n == 2) for n in (1, 2)]
    broker = ScriptedBroker(versions=versions or {})
    broker.answers = {
        "Metadata": [metadata(nodes={1: "b1"}, leaders={})],
        "DescribeCluster": [DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=shown)],
        "DescribeQuorum": [quorum_answer],
    }
    return describe(ScriptedCluster(kafka=broker, b1=broker).brokers())


def test_the_controller_is_the_leader_of_the_quorum() -> None:
    node = Node(node_id=3000, listeners=[Listener(name="CONTROLLER", host="c", port=9093)])
    assert described(quorum(3000, Node(node_id=7), node)).controller == Controller(3000, "c", 9093)


def test_an_old_controller_does_not_say_where_it_is() -> None:
    assert described(quorum(3000)).controller == Controller(3000, None, None)


@pytest.mark.parametrize(
    "answer",
    [
        quorum(-1),
        TimeoutError(),
        DescribeQuorumResponse(error_code=Code.REQUEST_TIMED_OUT, error_message=None, topics=[], nodes=[]),
    ],
)
def test_a_controller_that_is_not_reached_is_none(answer: Any) -> None:
    assert described(answer).controller is None


def test_fenced_brokers_are_among_the_brokers() -> None:
    known = described(quorum(3000))
    assert ([b.node_id for b in known.brokers], known.fenced) == ([1, 2], {2})


def test_a_broker_that_knows_no_fenced_ones_names_the_others() -> None:
    known = described(quorum(3000), {"DescribeCluster": (0, 1)})
    assert ([b.node_id for b in known.brokers], known.fenced) == ([1], frozenset())
