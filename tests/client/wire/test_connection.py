"""Connections of the client: version negotiation, timeouts, and error messages for endpoints that do not speak Kafka."""

from __future__ import annotations

import pytest

from ottla.client.errors import ClientError, NotKafka, TimedOut, Unreachable, UnsupportedRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataResponse
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

ALONE = metadata(nodes={1: "kafka"}, leaders={"t": [1]})


def test_client_uses_the_newest_common_api_version() -> None:
    broker = ScriptedBroker(answers={"Metadata": [ALONE]}, versions={"Metadata": (0, 7)})
    assert ScriptedCluster(kafka=broker).brokers().partitions("t") == [0]
    assert [(name, version) for name, version, _ in broker.asked] == [("ApiVersions", 5), ("Metadata", 7)]


def test_api_versions_is_retried_in_an_older_version() -> None:
    broker = ScriptedBroker(answers={"Metadata": [ALONE]}, versions={"ApiVersions": (0, 3)})
    ScriptedCluster(kafka=broker).brokers().partitions("t")
    assert [version for name, version, _ in broker.asked if name == "ApiVersions"] == [5, 3]


def test_client_does_not_send_a_request_unsupported_by_the_broker() -> None:
    broker = ScriptedBroker(versions={"ListTransactions": (9, 9), "DescribeProducers": (0, -1)})
    connection = ScriptedCluster(kafka=broker).brokers().anyone()
    with pytest.raises(UnsupportedRequest, match=r"ListTransactions .* has versions 9 to 9"):
        connection.call(ListTransactionsRequest())
    assert broker.names() == ["ApiVersions"]


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NotKafka, "the server at kafka:9092 is not Kafka"),
        (b"\x15\x03\x03\x00\x02\x02\x46", NotKafka, "it requires TLS"),
        (b"\0\0\0\6\0\0\0\7\0\0", NotKafka, "its response belongs to no request"),
        (b"\0\0\0\7\0\0\0\1\0\0\1", NotKafka, "cannot be decoded"),
        (b"\0\0\0\1\0", NotKafka, "is not Kafka"),
        (b"", TimedOut, "accepts connections but does not answer"),
        (ConnectionResetError("closed"), NotKafka, "TLS or SASL"),
    ],
)
def test_client_reports_an_endpoint_that_is_not_kafka(answer: bytes | OSError, kind: type[ClientError], says: str) -> None:
    broker = ScriptedBroker(answers={"ApiVersions": [answer]})
    with pytest.raises(kind, match=says) as raised:
        ScriptedCluster(kafka=broker).brokers().partitions("t")
    assert "\n" not in str(raised.value)


def test_refused_connection_fails_the_client_at_once() -> None:
    world = ScriptedCluster()
    with pytest.raises(Unreachable, match=r"kafka:9092 does not answer \(Connection refused\); start a broker there"):
        world.brokers().partitions("t")
    assert not world.pauses


def test_second_bootstrap_address_is_tried_when_the_first_is_down() -> None:
    broker = ScriptedBroker(answers={"Metadata": [ALONE]})
    assert ScriptedCluster(kafka=broker).brokers(bootstrap="dead:1,kafka:9092").partitions("t") == [0]


@pytest.mark.parametrize("text", ["", "foo", "foo:0", ":9092", "a:1,,b:2", "a:99999", "1:2:3"])
def test_invalid_bootstrap_address_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match=r"HOST:PORT|port between 1 and 65535|not a port"):
        ScriptedCluster().brokers(bootstrap=text)


def test_client_reports_a_response_timeout() -> None:
    broker = ScriptedBroker(answers={"Metadata": [TimeoutError()]})
    with pytest.raises(TimedOut, match="no answer within 10 s"):
        ScriptedCluster(kafka=broker).brokers().partitions("t")


def test_client_reopens_a_broken_connection() -> None:
    broker = ScriptedBroker(answers={"Metadata": [ALONE, ConnectionResetError(104, "reset"), ALONE]})
    brokers = ScriptedCluster(kafka=broker).brokers()
    assert brokers.partitions("t") == [0]
    assert brokers.partitions("t") == [0]
    assert broker.connections == 2


def test_client_gets_no_features_if_the_cluster_reports_none() -> None:
    broker = ScriptedBroker(answers={"Metadata": [MetadataResponse()]})
    assert ScriptedCluster(kafka=broker).brokers().anyone().features == {}
