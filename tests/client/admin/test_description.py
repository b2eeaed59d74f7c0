"""The client's description of a cluster: its controller, fenced brokers and stray directories."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.admin.description import Controller, describe
from ottla.client.admin.strays import Stray, directory_reports
from ottla.client.cluster import BrokerNode
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata


def log_dirs(*results: tuple[int, str]) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        error_code=0, results=[DescribeLogDirsResult(error_code=code, log_dir=text) for code, text in results]
    )


def quorum(leader: int, *nodes: Node) -> DescribeQuorumResponse:
    partition = ResponsePartitionData(leader_id=leader)
    topic = ResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumResponse(error_code=0, error_message="", topics=[topic], nodes=list(nodes))


def described(quorum_answer: Any, versions: dict[str, tuple[int, int]] | None = None, directories: Any = None) -> Any:
    shown = [DescribeClusterBroker(broker_id=n, host=f"b{n}", port=9092, rack=None, is_fenced=n == 2) for n in (1, 2)]
    broker = ScriptedBroker(versions=versions or {})
    broker.answers = {
        "Metadata": [metadata(nodes={1: "b1"}, leaders={})],
        "DescribeCluster": [DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=shown)],
        "DescribeQuorum": [quorum_answer],
        "DescribeLogDirs": [directories or log_dirs((0, "/data"))],
    }
    return describe(ScriptedCluster(kafka=broker, b1=broker).brokers())


def test_cluster_description_has_the_quorum_leader_as_controller() -> None:
    node = Node(node_id=3000, listeners=[Listener(name="CONTROLLER", host="c", port=9093)])
    assert described(quorum(3000, Node(node_id=7), node)).controller == Controller(3000, "c", 9093)


def test_cluster_description_by_an_old_broker_has_no_controller_address() -> None:
    assert described(quorum(3000)).controller == Controller(3000, None, None)


@pytest.mark.parametrize(
    "answer",
    [
        quorum(-1),
        TimeoutError(),
        DescribeQuorumResponse(error_code=Code.REQUEST_TIMED_OUT, error_message=None, topics=[], nodes=[]),
    ],
)
def test_cluster_description_has_no_controller_if_it_is_unreachable(answer: Any) -> None:
    assert described(answer).controller is None


def test_cluster_description_includes_fenced_brokers() -> None:
    known = described(quorum(3000))
    assert ([b.node_id for b in known.brokers], known.fenced) == ([1, 2], {2})


def test_cluster_description_by_an_old_broker_has_only_unfenced_brokers() -> None:
    known = described(quorum(3000), {"DescribeCluster": (0, 1)})
    assert ([b.node_id for b in known.brokers], known.fenced) == ([1], frozenset())


def test_stray_directories_are_read_from_describe_log_dirs() -> None:
    lines = log_dirs((0, "/data"), (56, "t-0 is offline: no file"), (0, "stray directory /data/t-0.a-stray: 5 bytes"))
    assert described(quorum(3000), directories=lines).strays == [Stray(1, "/data/t-0.a-stray: 5 bytes")]


def test_cluster_description_reports_offline_log_directories_and_damaged_logs() -> None:
    broker = ScriptedBroker()
    lines = log_dirs((56, "/data"), (56, "t-0 is offline: no file"), (0, "/other"), (0, "stray directory and 5 more"))
    broker.answers = {"DescribeLogDirs": [lines]}
    found = directory_reports(ScriptedCluster(b1=broker).brokers(), [BrokerNode(1, "b1", 9092), BrokerNode(2, "silent", 9092)])
    assert found.problems == ["broker 1: cannot use /data (KAFKA_STORAGE_ERROR)", "broker 1: t-0 is offline: no file"]
    assert found.strays == [Stray(1, "and 5 more")]


@pytest.mark.parametrize("answer", [TimeoutError(), ConnectionResetError()])
def test_broker_without_a_describe_log_dirs_response_is_still_described(answer: Exception) -> None:
    known = described(quorum(3000), directories=answer)
    assert ([broker.node_id for broker in known.brokers], known.strays) == ([1, 2], [])
