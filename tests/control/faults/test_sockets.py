"""Faults on a real event loop and over sockets, as the client at the other end experiences them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import RealEnv
from ottla.broker.shared.shared_server import Host
from ottla.control.faults.registry import Fault, Faults
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.simulation.client import Closed
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.wire

T = TypeVar("T")


class Served:
    """A broker on this event loop, and its faults. Clients use blocking calls, so they run in threads."""

    def __init__(self, server: BrokerServer, faults: Faults) -> None:
        self.server, self.faults = server, faults

    async def ask(self, work: Callable[[RawClient], T]) -> T:
        def asked() -> T:
            with RawClient(self.server.bootstrap) as client:
                return work(client)

        return await asyncio.to_thread(asked)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    faults = Faults()
    config = BrokerConfig({"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"})
    server = BrokerServer(RealEnv(), config, host=Host(interception=faults))
    await server.start()
    yield Served(server, faults)
    faults.clear()
    await server.stop()
    assert server.unexpected_errors == 0


def metadata(client: RawClient) -> Any:
    return client.call(MetadataRequest([]), 9)


async def test_cut_fault_closes_the_connection_once(served: Served) -> None:
    added = served.faults.add(Fault(api="Metadata", cut="after"))
    with pytest.raises(Closed):
        await served.ask(metadata)
    assert added.hits == 1
    assert (await served.ask(metadata)).brokers


async def test_response_dropped_by_a_fault_does_not_delay_later_responses_on_a_socket(served: Served) -> None:
    served.faults.add(Fault(api="Metadata", drop_answer=True))

    def ask(client: RawClient) -> Any:
        client.send(MetadataRequest([]), 9)
        return client.receive(client.send(ApiVersionsRequest(), 0))

    assert (await served.ask(ask)).api_keys


async def test_client_frozen_by_a_fault_continues_when_it_is_removed(served: Served) -> None:
    frozen = served.faults.add(Fault(client_id="raw", freeze=True))
    asking = asyncio.create_task(served.ask(metadata))
    triggered = asyncio.Event()
    frozen.when_hits(1, triggered.set)
    await triggered.wait()
    assert not asking.done()
    frozen.remove()
    assert (await asking).brokers


async def test_fault_delay_lasts_for_the_configured_time(served: Served) -> None:
    served.faults.add(Fault(api="Metadata", delay_ms=60))
    served.faults.add(Fault(api="Metadata", delay_answer_ms=60))

    def ask(client: RawClient) -> float:
        began = time.monotonic()
        metadata(client)
        metadata(client)
        return time.monotonic() - began

    assert await served.ask(ask) >= 0.12


async def test_stock_producer_commits_once_after_faults_dropped_responses(served: Served) -> None:
    """The first batch is refused, and the response to the first EndTxn is dropped. The client retries both requests."""
    refused = served.faults.add(Fault(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER"))
    lost = served.faults.add(Fault(api="EndTxn", transactional_id="checkout-*", fields={"committed": True}, drop_answer=True))
    ends = served.faults.add(Fault(api="EndTxn", observe=True))

    def commit() -> None:
        settings = {
            "bootstrap.servers": served.server.bootstrap,
            "transactional.id": "checkout-1",
            "socket.timeout.ms": 1_000,
            "retry.backoff.ms": 10,
        }
        producer = Producer(settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("orders", b"1")
        producer.commit_transaction(60)

    await asyncio.to_thread(commit)
    assert (refused.hits, lost.hits) == (1, 1)
    assert ends.hits >= 1
    (log,) = [log for log in served.server.directory.logs.values() if log.topic == "orders"]
    # The partition contains one record and one marker.
    assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
