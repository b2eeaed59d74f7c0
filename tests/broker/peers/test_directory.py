"""The connection for a request to another broker while brokers register, change their address, are fenced and unregister."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.directory import COORDINATOR, FETCH, BrokerListener, BrokerPeers
from ottla.broker.peers.requests import Failure
from ottla.broker.peers.states import PeerState
from ottla.coordinator.metadata.broker_registration import BrokerRegistration, ListenerEndpoint, Registrations
from ottla.protocol.messages.metadata import MetadataRequest
from tests.support.world import LoopWorld

OWN, OTHER = 1, 2


class BrokerPeersWorld(LoopWorld):
    def __init__(self) -> None:
        super().__init__()
        self.registrations = Registrations()
        self.peers = BrokerPeers(
            self.env,
            lambda: self.registrations,
            own_id=OWN,
            listener=BrokerListener("INTERNAL"),
            buffers=ReceiveBuffers(),
            bug=lambda: pytest.fail("a callback raised an exception"),
        )
        self.register(OWN, "own", 9092)
        self.register(OTHER, "other", 9092)

    def register(self, broker_id: int, host: str, port: int, *, listener: str = "INTERNAL", life: int = 0) -> None:
        endpoints = [("CLIENTS", "clients", 1), (listener, host, port)]
        self.registrations.brokers[broker_id] = BrokerRegistration(
            broker_id=broker_id,
            broker_epoch=7,
            incarnation_id=bytes([life]) * 16,
            listeners=tuple(ListenerEndpoint(name=n, host=h, port=p, security_protocol=0) for n, h, p in endpoints),
            features={},
            is_fenced=False,
        )

    def fence(self, broker_id: int, *, is_fenced: bool) -> None:
        brokers = self.registrations.brokers
        brokers[broker_id] = msgspec.structs.replace(brokers[broker_id], is_fenced=is_fenced)


def test_broker_opens_one_connection_per_purpose_to_another_brokers_listener() -> None:
    world = BrokerPeersWorld()
    peer = world.peers.peer(OTHER, FETCH)
    assert peer is not None
    assert (peer.host, peer.port) == ("other", 9092)
    assert world.peers.peer(OTHER, FETCH) is peer
    assert world.peers.peer(OTHER, COORDINATOR) is not peer
    assert world.peers.peer(OTHER) is world.peers.peer(OTHER, COORDINATOR)


def test_broker_opens_no_connection_to_its_own_or_an_unknown_broker_id() -> None:
    world = BrokerPeersWorld()
    assert world.peers.peer(OWN) is None
    assert world.peers.peer(3) is None
    world.register(3, "third", 9092, listener="EXTERNAL")
    assert world.peers.peer(3) is None


def test_fenced_broker_gets_no_requests_and_keeps_its_connection() -> None:
    world = BrokerPeersWorld()
    peer = world.peers.peer(OTHER)
    assert peer is not None
    world.fence(OTHER, is_fenced=True)
    world.peers.changed()
    assert world.peers.peer(OTHER) is None
    assert peer.state is not PeerState.CLOSED
    world.fence(OTHER, is_fenced=False)
    assert world.peers.peer(OTHER) is peer


@pytest.mark.parametrize("is_notified", [True, False])
def test_connection_to_a_broker_with_a_new_address_uses_the_new_address(is_notified: bool) -> None:
    world = BrokerPeersWorld()
    peer, answers = world.peers.peer(OTHER), list[Any]()
    assert peer is not None
    peer.send(MetadataRequest(), answers.append)
    world.register(OTHER, "other", 9093)
    if is_notified:
        world.peers.changed()
    moved = world.peers.peer(OTHER)
    assert moved is not None
    assert (moved.host, moved.port) == ("other", 9093)
    world.env.settle()
    assert peer.state is PeerState.CLOSED
    assert [answer.kind for answer in answers] == [Failure.CLOSED]
    assert moved.state is PeerState.IDLE


def test_requests_to_an_earlier_incarnation_of_a_broker_fail_at_once() -> None:
    world = BrokerPeersWorld()
    peer, answers = world.peers.peer(OTHER), list[Any]()
    assert peer is not None
    peer.send(MetadataRequest(), answers.append)
    world.register(OTHER, "other", 9092, life=1)
    world.peers.changed()
    world.env.settle()
    assert [answer.kind for answer in answers] == [Failure.CLOSED]
    again = world.peers.peer(OTHER)
    assert again is not None
    assert again is not peer


def test_closed_connection_to_another_broker_is_replaced_by_a_new_one() -> None:
    world = BrokerPeersWorld()
    peer, other, answers = world.peers.peer(OTHER, FETCH), world.peers.peer(OTHER, COORDINATOR), list[Any]()
    assert peer is not None
    peer.send(MetadataRequest(), answers.append)
    world.peers.hang_up(OTHER, FETCH)
    world.peers.hang_up(3, FETCH)
    world.env.settle()
    assert [answer.kind for answer in answers] == [Failure.CLOSED]
    assert world.peers.peer(OTHER, FETCH) is not peer
    assert world.peers.peer(OTHER, COORDINATOR) is other


def test_connections_to_unregistered_brokers_are_closed() -> None:
    world = BrokerPeersWorld()
    peer = world.peers.peer(OTHER)
    assert peer is not None
    del world.registrations.brokers[OTHER]
    world.peers.changed()
    assert peer.state is PeerState.CLOSED


def test_no_connection_to_another_broker_is_opened_after_all_were_closed() -> None:
    world = BrokerPeersWorld()
    peers = [world.peers.peer(OTHER, purpose) for purpose in (FETCH, COORDINATOR)]
    world.peers.close()
    assert [peer.state for peer in peers if peer is not None] == [PeerState.CLOSED] * 2
    assert world.peers.peer(OTHER) is None
