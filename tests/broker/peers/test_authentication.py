"""A broker authenticates to its peers by SASL: each refusal is logged once, and sessions expire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.peers.requests import Failure
from ottla.broker.peers.security import PeerSecurity
from ottla.broker.peers.states import PeerState
from ottla.client.security.client_config import Connecting, Sasl, Secret
from ottla.protocol.codec import API_VERSIONS_KEY
from ottla.protocol.errors import Code
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.broker.peers.test_peer import HOST, METADATA, OFFERED, PORT, Accepted, PeerWorld

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
WITH_SASL = (*OFFERED, (SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 2))


class SecuredWorld(PeerWorld):
    """A node and its peer, which answers SASL requests with the responses in ``handshake`` and ``verdict``."""

    def __init__(self) -> None:
        super().__init__()
        self.peer.close()
        connecting = Connecting("", None, Sasl("PLAIN", "admin", Secret("hush"), prefix=""), "")
        self.security = PeerSecurity(self.env, lambda _: connecting, BrokerConfig({}), "SASL_PLAINTEXT")
        self.peer = self.new_peer(security=self.security)
        self.host.offers = WITH_SASL
        self.handshake = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
        self.verdict = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=0)

    @property
    def accepted(self) -> Accepted:
        return self.host.accepted[-1]

    def keys(self) -> list[int]:
        return [key for key, _, _ in self.accepted.requests if key != API_VERSIONS_KEY]

    def authenticate(self) -> None:
        """Answer a SaslHandshake and a SaslAuthenticate request."""
        self.settle()
        assert self.keys()[-1] == SASL_HANDSHAKE
        self.accepted.answer(self.handshake)
        self.settle()
        if self.handshake.error_code == Code.NONE:
            assert self.keys()[-1] == SASL_AUTHENTICATE
            self.accepted.answer(self.verdict)
            self.settle()

    def refuse(self) -> None:
        self.verdict = SaslAuthenticateResponse(
            error_code=Code.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed", auth_bytes=b""
        )


@pytest.fixture
def world() -> Iterator[SecuredWorld]:
    made = SecuredWorld()
    yield made
    made.peer.close()
    made.settle()
    assert made.bugs == 0


def refusals(lines: list[Any]) -> list[str]:
    return [line["reason"] for line in lines if line["event"] == "peer_authentication_failed"]


def test_requests_to_another_broker_wait_until_sasl_authentication_succeeds(world: SecuredWorld) -> None:
    world.ask()
    world.authenticate()
    assert world.keys() == [SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA]
    assert world.is_in(PeerState.READY)
    versions = {key: version for key, version, _ in world.accepted.requests}
    assert versions[SASL_HANDSHAKE] == 1
    world.accepted.answer(MetadataResponse(cluster_id="c", controller_id=3))
    world.settle()
    assert [answer.cluster_id for answer in world.answers] == ["c"]


def test_wrong_inter_broker_password_is_logged_once_until_it_is_corrected(world: SecuredWorld) -> None:
    world.refuse()
    with capture_logs() as lines:
        for _ in range(5):
            world.ask()
            world.authenticate()
            world.env.advance(2_000)
    assert world.failures == [Failure.REFUSED] * 5
    (reason,) = refusals(lines)
    assert reason == (
        f"authentication of 'admin' by PLAIN at {HOST}:{PORT} failed: SASL_AUTHENTICATION_FAILED: Authentication failed"
    )
    assert "hush" not in reason
    assert [line for line in lines if line["event"] == "peer_disconnected"] == []
    world.verdict = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"")
    world.ask()
    world.authenticate()
    assert world.is_in(PeerState.READY)


def test_lasting_authentication_failure_between_brokers_is_logged_with_a_count(world: SecuredWorld) -> None:
    world.refuse()
    with capture_logs() as lines:
        for _ in range(10):
            world.ask()
            world.authenticate()
            world.env.advance(2_000)
    counted = [line.get("times") for line in lines if line["event"] == "peer_authentication_failed"]
    assert counted == [None, 6]


def test_log_names_a_peer_that_lacks_the_sasl_mechanism(world: SecuredWorld) -> None:
    world.handshake = SaslHandshakeResponse(error_code=Code.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-512"])
    world.ask()
    with capture_logs() as lines:
        world.authenticate()
    assert refusals(lines) == [f"the broker at {HOST}:{PORT} does not support sasl.mechanism PLAIN, but SCRAM-SHA-512"]


def test_log_names_a_peer_without_sasl(world: SecuredWorld) -> None:
    world.host.offers = OFFERED
    world.ask()
    with capture_logs() as lines:
        world.settle()
    assert refusals(lines) == ["the peer supports no version of API 17 with which this node can authenticate"]


def test_broker_reauthenticates_to_its_peer_before_the_sasl_session_ends(world: SecuredWorld) -> None:
    world.verdict = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=10_000)
    world.ask()
    world.authenticate()
    world.env.advance(8_600)
    # The broker re-authenticates after the response to its request in flight.
    world.ask()
    world.settle()
    assert world.keys().count(SASL_HANDSHAKE) == 1
    world.accepted.answer(MetadataResponse(cluster_id="a", controller_id=3))
    world.authenticate()
    world.accepted.answer(MetadataResponse(cluster_id="b", controller_id=3))
    world.settle()
    assert [answer.cluster_id for answer in world.answers] == ["a", "b"]
    assert len(world.host.accepted) == 1


def test_key_stores_are_read_again_only_if_a_client_sets_their_configs(world: SecuredWorld) -> None:
    read: list[BrokerConfig] = []
    connecting = Connecting("", None, None, "")
    security = PeerSecurity(world.env, lambda config: read.append(config) or connecting, BrokerConfig({}), "IN")  # type: ignore[func-returns-value]
    key = "listener.name.in.ssl.keystore.location"
    dynamic = {key: "/a", "listener.name.in.max.connections": "5"}
    live_config = LiveConfig(BrokerConfig({}, dynamic))
    live_config.parts.append(security)
    del read[:]
    for names in (["log.cleaner.threads"], ["listener.name.in.max.connections"], ["listener.name.other.ssl.keystore.location"]):
        live_config.check(dynamic, names)
        live_config.set_dynamic(dynamic, names)
    assert read == []
    live_config.check(dynamic, [key])
    live_config.set_dynamic(dynamic, [key])
    assert [config.dynamic for config in read] == [dynamic, dynamic]
