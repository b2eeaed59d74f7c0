"""Brokers of a simulated world reach each other over its network, with its delays and network partitions."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from ottla.broker.broker import BrokerServer
from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.peer import Peer, PeerEnv, PeerLimits
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.simulation.env import START_MS
from ottla.simulation.links import Links
from ottla.simulation.node import PORT, Node
from ottla.simulation.scheduler import Scheduler


class Ground:
    """Two brokers, and a connection from the first to the second."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(START_MS)
        self.links = Links(self.scheduler, random.Random(1))
        self.here, self.there = (self._node(node_id) for node_id in range(2))
        self.answers: list[Any] = []
        for node in (self.here, self.there):
            node.start()
            assert node.is_up
        self.peer = Peer(
            cast(PeerEnv, self.here.env),
            (self.there.host, PORT),
            client_id="0",
            bug=lambda: pytest.fail("an unexpected error was reported"),
            buffers=ReceiveBuffers(),
            limits=PeerLimits(connect_ms=1_000, request_ms=2_000),
        )

    def _node(self, node_id: int) -> Node[BrokerServer]:
        return Node(
            node_id=node_id,
            host=f"broker-{node_id}",
            scheduler=self.scheduler,
            links=self.links,
            rng=random.Random(node_id),
            settings={"listeners": f"PLAINTEXT://broker-{node_id}:{PORT}"},
            features={},
            on_crash=lambda node: None,
            make_server=BrokerServer,
        )

    def ask(self) -> None:
        self.peer.send(MetadataRequest(topics=[]), self.answers.append)
        self.scheduler.settle()

    def wait(self, ms: float) -> None:
        self.scheduler.advance(ms)

    @property
    def failures(self) -> list[Failure]:
        return [answer.kind for answer in self.answers if isinstance(answer, PeerFailure)]


def test_simulated_broker_gets_a_metadata_response_from_another_simulated_broker() -> None:
    ground = Ground()
    ground.ask()
    assert ground.answers == []
    ground.wait(500)
    assert isinstance(ground.answers[0], MetadataResponse)


@pytest.mark.parametrize("way", [("broker-0", "broker-1"), ("broker-1", "broker-0")])
def test_simulated_one_way_network_partition_blocks_responses_until_it_ends(way: tuple[str, str]) -> None:
    ground = Ground()
    ground.links.cut(*way)
    ground.ask()
    ground.wait(1_001)
    assert ground.failures == [Failure.DISCONNECTED]
    ground.links.heal(*way)
    ground.ask()
    ground.wait(2_000)
    assert isinstance(ground.answers[1], MetadataResponse)


def test_request_during_a_simulated_network_partition_ends_in_a_timeout() -> None:
    ground = Ground()
    ground.ask()
    ground.wait(500)
    ground.links.cut("broker-1", "broker-0")
    ground.ask()
    ground.wait(2_001)
    assert ground.failures == [Failure.TIMED_OUT]


def test_killed_simulated_broker_is_reachable_after_its_restart() -> None:
    ground = Ground()
    ground.ask()
    ground.wait(500)
    ground.there.crash(power_cut=False)
    ground.ask()
    ground.wait(2_001)
    assert len(ground.failures) == 1
    ground.there.start()
    ground.ask()
    ground.wait(2_000)
    assert isinstance(ground.answers[-1], MetadataResponse)


def test_crashed_simulated_process_gets_no_responses() -> None:
    ground = Ground()
    ground.ask()
    ground.here.crash(power_cut=False)
    ground.wait(5_000)
    assert ground.answers == []
