"""A connection to another broker in a simulated world: slow, lost, unknown and overloaded peers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest

import ottla
from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.peer import SOFTWARE_VERSION, Peer, PeerEnv, PeerLimits
from ottla.broker.peers.requests import Failure, PeerFailure, RequestLimits
from ottla.broker.peers.states import PeerState
from ottla.protocol.codec import API_VERSIONS_KEY
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import SimulatedEnv
from tests.support.accepted import AcceptedConnection
from tests.support.world import LoopWorld

HOST, PORT = "other", 9092
METADATA, LIST_GROUPS = 3, 16
OFFERED = ((METADATA, 0, 12), (API_VERSIONS_KEY, 0, 4))


class Accepted(AcceptedConnection):
    """The peer's end of one connection. It stores requests and answers when the test calls `answer`."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self.requests: list[tuple[int, int, int]] = []

    def received(self, key: int, version: int, correlation_id: int, request: Any) -> None:
        self.requests.append((key, version, correlation_id))
        if key == API_VERSIONS_KEY:
            self._host.greetings.append(request)
            self._host.greeted(self, version)

    def answer(self, message: Any, *, at: int = -1, correlation_id: int | None = None, version: int | None = None) -> None:
        key, asked, asked_id = self.requests[at]
        self.respond(key, asked if version is None else version, asked_id if correlation_id is None else correlation_id, message)


class Host:
    """A listening peer, with the API versions that it offers."""

    def __init__(self, env: SimulatedEnv) -> None:
        self.env = env
        self.accepted: list[Accepted] = []
        self.greetings: list[Any] = []
        self.offers = OFFERED
        self.answers_greetings = True
        self.greeting_error = Code.NONE
        self.listening = env.network.listen(HOST, PORT, self._accept)

    def _accept(self) -> Accepted:
        self.accepted.append(Accepted(self))
        return self.accepted[-1]

    def greeted(self, accepted: Accepted, version: int) -> None:
        if not self.answers_greetings:
            return
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in self.offers]
        newest = next((high for key, _, high in self.offers if key == API_VERSIONS_KEY), 0)
        if version > newest:
            refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=keys)
            accepted.answer(refusal, version=0)
        else:
            accepted.answer(ApiVersionsResponse(error_code=self.greeting_error, api_keys=keys))

    def close(self) -> None:
        self.listening.close()


class PeerWorld(LoopWorld):
    def __init__(self, **peer: Any) -> None:
        super().__init__()
        self.host = Host(self.env)
        self.answers: list[Any] = []
        self.peer = self.new_peer(**peer)

    def new_peer(self, **peer: Any) -> Peer:
        return Peer(self.env, (HOST, PORT), client_id="broker-1", bug=self.note_bug, buffers=ReceiveBuffers(), **peer)

    def ask(self, request: Any = None, **how: Any) -> None:
        self.peer.send(MetadataRequest() if request is None else request, self.answers.append, **how)

    def is_in(self, state: PeerState) -> bool:
        return self.peer.state is state

    @property
    def failures(self) -> list[Failure]:
        return [answer.kind for answer in self.answers if isinstance(answer, PeerFailure)]


@pytest.fixture
def world() -> Iterator[PeerWorld]:
    made = PeerWorld()
    yield made
    made.peer.close()
    made.settle()
    assert made.bugs == 0


def test_peer_connection_uses_the_newest_common_api_version(world: PeerWorld) -> None:
    world.ask()
    assert world.answers == []
    world.settle()
    (accepted,) = world.host.accepted
    assert accepted.requests[-1][:2] == (METADATA, 12)
    assert accepted.client_id == "broker-1"
    accepted.answer(MetadataResponse(cluster_id="c", controller_id=3))
    world.settle()
    assert [(answer.cluster_id, answer.controller_id) for answer in world.answers] == [("c", 3)]
    assert world.peer.offered(METADATA) == 12
    assert world.peer.offered(LIST_GROUPS) is None


def test_peer_connection_retries_api_versions_in_a_supported_version(world: PeerWorld) -> None:
    world.ask()
    world.settle()
    assert [version for key, version, _ in world.host.accepted[0].requests if key == API_VERSIONS_KEY] == [5, 4]
    greeting = world.host.greetings[-1]
    assert (greeting.client_software_name, greeting.client_software_version) == ("ottla", ottla.__version__)
    assert ottla.__version__ == SOFTWARE_VERSION


def test_peer_requests_share_one_connection_and_wait_for_api_versions(world: PeerWorld) -> None:
    world.host.answers_greetings = False
    for _ in range(3):
        world.ask()
    world.settle()
    (accepted,) = world.host.accepted
    assert [key for key, _, _ in accepted.requests] == [API_VERSIONS_KEY]
    world.host.answers_greetings = True
    world.host.greeted(accepted, 4)
    world.settle()
    # The request has ApiVersions version 5 and the response version 4; both responses have the same format.
    assert [key for key, _, _ in accepted.requests] == [API_VERSIONS_KEY, METADATA, METADATA, METADATA]
    for at in (-3, -2, -1):
        accepted.answer(MetadataResponse(controller_id=at), at=at)
    world.settle()
    assert [answer.controller_id for answer in world.answers] == [-3, -2, -1]


def test_unsupported_api_version_of_a_peer_fails_only_its_request(world: PeerWorld) -> None:
    world.ask(ListGroupsRequest())
    world.ask(least_version=13)
    world.ask(most_version=5)
    world.settle()
    assert world.failures == [Failure.UNSUPPORTED_VERSION] * 2
    assert world.host.accepted[0].requests[-1][:2] == (METADATA, 5)


def test_refused_peer_connection_fails_requests_and_delays_the_next_attempt(world: PeerWorld) -> None:
    world.host.close()
    world.ask()
    world.ask()
    world.settle()
    assert world.failures == [Failure.DISCONNECTED] * 2
    assert "no listener" in world.answers[0].reason
    assert world.is_in(PeerState.BACKING_OFF)
    world.ask()
    world.settle()
    assert len(world.answers) == 2
    world.host = Host(world.env)
    world.advance(100)
    assert world.is_in(PeerState.READY)
    world.host.accepted[0].answer(MetadataResponse())
    world.settle()
    assert len(world.answers) == 3
    assert isinstance(world.answers[2], MetadataResponse)


def test_peer_connection_without_requests_is_not_reopened(world: PeerWorld) -> None:
    world.host.close()
    world.ask()
    world.advance(10_000)
    assert world.is_in(PeerState.IDLE)


def test_lost_peer_connection_fails_sent_requests_and_sends_queued_ones() -> None:
    world = PeerWorld(limits=PeerLimits(requests=RequestLimits(in_flight=1)))
    world.ask()
    world.ask()
    world.settle()
    world.host.accepted[0].transport.close()
    world.settle()
    assert world.failures == [Failure.DISCONNECTED]
    world.advance(100)
    assert len(world.host.accepted) == 2
    world.host.accepted[1].answer(MetadataResponse(controller_id=7))
    world.settle()
    assert world.answers[1].controller_id == 7


def test_closed_idle_peer_connection_is_reopened_by_the_next_request(world: PeerWorld) -> None:
    world.ask()
    world.settle()
    world.host.accepted[0].answer(MetadataResponse())
    world.settle()
    world.host.accepted[0].transport.close()
    world.settle()
    assert world.is_in(PeerState.IDLE)
    world.ask()
    world.settle()
    assert len(world.host.accepted) == 2
    assert world.failures == []


def test_response_timeout_closes_the_peer_connection(world: PeerWorld) -> None:
    world.ask(timeout_ms=500)
    world.settle()
    world.ask(timeout_ms=5_000)
    world.advance(499)
    assert world.answers == []
    world.advance(2)
    assert world.failures == [Failure.TIMED_OUT, Failure.DISCONNECTED]
    assert world.host.accepted[0].is_lost


def test_peer_request_with_the_earliest_deadline_expires_first(world: PeerWorld) -> None:
    world.host.answers_greetings = False
    world.ask(timeout_ms=5_000)
    world.ask(timeout_ms=100)
    world.advance(101)
    assert world.failures == [Failure.TIMED_OUT]
    world.advance(4_900)
    assert world.failures == [Failure.TIMED_OUT] * 2


def test_peer_connection_to_a_silent_host_times_out() -> None:
    world = PeerWorld(limits=PeerLimits(connect_ms=1_000))
    world.host.answers_greetings = False
    world.ask()
    world.advance(1_001)
    assert world.failures == [Failure.DISCONNECTED]
    assert "no connection within 1000 ms" in world.answers[0].reason
    assert world.host.accepted[0].is_lost


def test_peer_request_beyond_the_queue_limit_is_refused_at_once() -> None:
    world = PeerWorld(limits=PeerLimits(requests=RequestLimits(waiting=2)))
    for _ in range(3):
        world.ask()
    assert world.answers == []
    world.env.scheduler.turn()
    assert world.failures == [Failure.TOO_MANY]


def test_peer_requests_in_flight_are_bounded_by_bytes() -> None:
    world = PeerWorld(limits=PeerLimits(requests=RequestLimits(in_flight_bytes=1)))
    world.ask()
    world.ask()
    world.settle()
    accepted = world.host.accepted[0]
    assert [key for key, _, _ in accepted.requests].count(METADATA) == 1
    accepted.answer(MetadataResponse())
    world.settle()
    assert [key for key, _, _ in accepted.requests].count(METADATA) == 2


def test_closed_peer_connection_fails_queued_and_new_requests(world: PeerWorld) -> None:
    world.ask()
    world.settle()
    world.ask()
    world.peer.close()
    world.peer.close()
    world.ask()
    assert world.answers == []
    world.settle()
    assert world.failures == [Failure.CLOSED] * 3
    assert world.host.accepted[0].is_lost
    world.advance(100_000)
    assert len(world.host.accepted) == 1


def test_peer_closed_while_connecting_leaves_no_connection(world: PeerWorld) -> None:
    world.ask()
    world.peer.close()
    world.settle()
    assert world.failures == [Failure.CLOSED]
    assert all(accepted.is_lost for accepted in world.host.accepted)


@pytest.mark.parametrize(
    "how",
    [{"correlation_id": 77}, {"version": 0}],
    ids=["an answer to nothing that was asked", "an answer in another version"],
)
def test_malformed_response_closes_the_peer_connection(world: PeerWorld, how: dict[str, Any]) -> None:
    world.ask()
    world.settle()
    world.host.accepted[0].answer(MetadataResponse(), **how)
    world.settle()
    assert world.failures == [Failure.DISCONNECTED]
    assert "cannot be decoded" in world.answers[0].reason
    assert world.host.accepted[0].is_lost


def test_oversized_response_closes_the_peer_connection() -> None:
    world = PeerWorld(limits=PeerLimits(requests=RequestLimits(response_bytes=1_000)))
    world.ask()
    world.settle()
    world.host.accepted[0].transport.write((1_001).to_bytes(4, "big"))
    world.settle()
    assert world.failures == [Failure.DISCONNECTED]
    assert "a frame has an invalid size of 1001 bytes" in world.answers[0].reason


def test_refused_api_versions_increases_the_reconnect_backoff_of_a_peer(world: PeerWorld) -> None:
    world.host.greeting_error = Code.INVALID_REQUEST
    attempts: list[int] = []
    for _ in range(4):
        world.ask()
        for _ in range(2_000):
            if len(world.host.accepted) > len(attempts):
                break
            world.advance(1)
        attempts.append(world.env.steady_ms())
        world.settle()
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]
    assert world.failures == [Failure.DISCONNECTED] * 4


def test_failing_callback_of_a_peer_request_affects_no_other_request() -> None:
    world = PeerWorld()

    def fail(_: Any) -> None:
        raise AssertionError("a bug")

    world.peer.send(MetadataRequest(), fail)
    world.ask()
    world.settle()
    accepted = world.host.accepted[0]
    accepted.answer(MetadataResponse(), at=-2)
    accepted.answer(MetadataResponse(), at=-1)
    world.settle()
    assert world.bugs == 1
    assert len(world.answers) == 1
    assert world.failures == []


def test_callback_of_a_peer_request_may_send_requests_and_close_the_peer() -> None:
    world = PeerWorld()

    def again(_: Any) -> None:
        world.ask()
        world.peer.close()

    world.peer.send(MetadataRequest(), again)
    world.settle()
    world.host.accepted[0].answer(MetadataResponse())
    world.settle()
    assert world.failures == [Failure.CLOSED]
    assert world.bugs == 0


def test_peer_connection_gets_responses_from_a_real_broker() -> None:
    broker = SimulatedBroker().start()
    answers: list[Any] = []
    peer = Peer(
        cast(PeerEnv, broker.env),
        ("127.0.0.1", 9092),
        client_id="broker-1",
        bug=lambda: pytest.fail("an unexpected error was reported"),
        buffers=broker.broker.connections.buffers,
    )
    peer.send(MetadataRequest(topics=[]), answers.append)
    peer.send(ListGroupsRequest(), answers.append)
    broker.env.settle()
    assert [type(answer) for answer in answers] == [MetadataResponse, ListGroupsResponse]
    assert answers[0].cluster_id == broker.broker.cluster_id
    peer.close()
    broker.close()
