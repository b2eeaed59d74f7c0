"""The sink's client with brokers that support other API versions than ottla."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.addresses import Address
from ottla.client.cluster import BrokerConnections
from ottla.client.security.client_config import Connecting
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponseTopic
from ottla.protocol.messages.produce import ProduceRequest
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import NotServed
from ottla.spark.progress.marks import Mark, read_mark
from ottla.spark.sink.transaction import state_of
from tests.client.security.listener import answering, listening, versions

pytestmark = pytest.mark.wire


def client_of(address: Address) -> BrokerConnections:
    return cluster_client(Connecting(f"{address[0]}:{address[1]}"))


def older(seen: list[tuple[str, int]], **newest: int) -> Callable[[str, Any], Any]:
    """Return a broker that supports only these versions. Names of its requests are appended to ``seen``."""

    def answer(name: str, sent: Any) -> Any:
        seen.append((name, 0))
        if name == "ApiVersions":
            return versions(**newest)
        if name == "FindCoordinator":
            assert sent.key == "shop"
            return FindCoordinatorResponse(node_id=7, coordinators=[Coordinator(node_id=7)])
        if name == "OffsetFetch":
            assert sent.group_id == "ottla-pipeline.shop" or sent.groups[0].group_id == "ottla-pipeline.shop"
            mark = '{"query":"q","batch":3,"run":"r"}'
            there = OffsetFetchResponsePartition(0, committed_offset=1, metadata=mark)
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("in", partitions=[there])])
        return None

    return answer


def test_spark_client_gets_no_transaction_state_from_a_broker_without_describe_transactions() -> None:
    with listening(answering(older([], DescribeTransactions=-1, ApiVersions=2))) as address:
        client = client_of(address)
        client.coordinator = lambda kind, key: client.anyone()  # type: ignore[method-assign]
        assert state_of(client, "shop") == ""


def test_spark_client_uses_api_versions_that_an_old_broker_supports() -> None:
    seen: list[tuple[str, int]] = []
    with listening(answering(older(seen, FindCoordinator=2, OffsetFetch=5, ApiVersions=2))) as address:
        client = client_of(address)
        assert client.coordinator_id(1, "shop") == 7
        client.coordinator = lambda kind, key: client.anyone()  # type: ignore[method-assign]
        assert read_mark(client, "ottla-pipeline.shop") == Mark("q", 3, "r")
        client.close()


def test_spark_client_refuses_a_broker_that_is_too_old() -> None:
    with listening(answering(older([], Produce=9))) as address:
        client = client_of(address)
        with pytest.raises(NotServed, match=r"Produce 12 is not supported at localhost:\d+: the broker has versions 3 to 9"):
            client.anyone().send(ProduceRequest())
        client.close()
