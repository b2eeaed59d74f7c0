"""A broker's registration and heartbeats."""

from __future__ import annotations

import pytest

from ottla.broker.membership.lifecycle import BrokerIdentity, BrokerLifecycle, Intervals
from ottla.broker.membership.states import FOLLOWING, BrokerState, IllegalBrokerState, check_transition
from ottla.protocol.errors import Code
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

IDENTITY = BrokerIdentity(
    broker_id=2,
    cluster_id="abc",
    incarnation_id=b"i" * 16,
    listeners=(("PLAINTEXT", "localhost", 9092, 0),),
    features=(("metadata.version", 7, 33),),
    rack="r1",
    log_directories=(b"d" * 16,),
    previous_epoch=5,
)
EPOCH = 41


def lifecycle(*, running: bool = False) -> BrokerLifecycle:
    made = BrokerLifecycle(IDENTITY, Intervals())
    if running:
        made.start(0)
        made.next_request(0, 0)
        made.registered(BrokerRegistrationResponse(broker_epoch=EPOCH), 0, 0.5)
        made.become_ready(0)
        beat(made, 0, caught_up=True, fenced=False)
        assert is_in(made, BrokerState.RUNNING)
    return made


def is_in(one: BrokerLifecycle, state: BrokerState) -> bool:
    return one.state is state


def beat(one: BrokerLifecycle, now_ms: float, *, offset: int = 10, **answer: bool) -> BrokerHeartbeatRequest:
    """Answer the heartbeat that is due at `now_ms`, and return it."""
    request = one.next_request(now_ms, offset)
    assert isinstance(request, BrokerHeartbeatRequest)
    response = BrokerHeartbeatResponse(
        is_caught_up=answer.get("caught_up", True),
        is_fenced=answer.get("fenced", False),
        should_shut_down=answer.get("shut_down", False),
    )
    one.heard(response, now_ms, 0.5)
    return request


def test_every_broker_lifecycle_state_is_reached_and_the_last_is_final() -> None:
    reached, left = {BrokerState.NOT_RUNNING}, [BrokerState.NOT_RUNNING]
    while left:
        new = FOLLOWING[left.pop()] - reached
        reached |= new
        left += new
    assert reached == set(BrokerState) == set(FOLLOWING)
    assert not FOLLOWING[BrokerState.SHUTTING_DOWN]
    with pytest.raises(IllegalBrokerState, match="RUNNING cannot change to STARTING"):
        check_transition(BrokerState.RUNNING, BrokerState.STARTING)


def test_broker_lifecycle_sends_no_request_before_its_start() -> None:
    assert lifecycle().next_request(1e9, 0) is None


def test_broker_registration_has_broker_id_cluster_id_and_incarnation_id() -> None:
    one = lifecycle()
    one.start(100)
    request = one.next_request(100, -1)
    assert isinstance(request, BrokerRegistrationRequest)
    assert (request.broker_id, request.cluster_id, request.incarnation_id, request.rack) == (2, "abc", b"i" * 16, "r1")
    assert [(x.name, x.host, x.port, x.security_protocol) for x in request.listeners] == [("PLAINTEXT", "localhost", 9092, 0)]
    assert [(x.name, x.min_supported_version, x.max_supported_version) for x in request.features] == [("metadata.version", 7, 33)]
    assert (request.log_dirs, request.previous_broker_epoch) == ([b"d" * 16], 5)


def test_broker_lifecycle_has_at_most_one_request_in_flight() -> None:
    one = lifecycle()
    one.start(0)
    assert one.next_request(0, 0) is not None
    assert one.next_request(100_000, 0) is None


def test_broker_heartbeats_start_at_once_and_follow_the_interval() -> None:
    one = lifecycle()
    one.start(0)
    one.next_request(0, 0)
    assert one.registered(BrokerRegistrationResponse(broker_epoch=EPOCH), 7, 0.5)
    assert one.due_ms == 7
    request = beat(one, 7, offset=123, caught_up=False, fenced=True)
    assert (request.broker_epoch, request.current_metadata_offset, request.want_fence) == (EPOCH, 123, True)
    assert one.due_ms == 17, "the first heartbeat does not wait for the interval"
    assert one.next_request(16, 0) is None
    assert is_in(one, BrokerState.STARTING)
    beat(one, 17, offset=124, caught_up=True, fenced=True)
    assert one.due_ms == 2_017


def test_broker_state_is_recovery_once_caught_up_and_running_once_unfenced() -> None:
    one = lifecycle()
    one.start(0)
    one.next_request(0, 0)
    one.registered(BrokerRegistrationResponse(broker_epoch=EPOCH), 0, 0.5)
    assert beat(one, 0, caught_up=True, fenced=True).want_fence
    assert is_in(one, BrokerState.RECOVERY)
    one.become_ready(10)
    assert one.due_ms == 10
    assert not beat(one, 10, fenced=False).want_fence
    assert is_in(one, BrokerState.RUNNING)
    assert not one.is_fenced


def test_state_change_during_a_broker_heartbeat_sends_the_next_one_at_once() -> None:
    one = lifecycle()
    one.start(0)
    one.next_request(0, 0)
    one.become_ready(1)
    one.registered(BrokerRegistrationResponse(broker_epoch=EPOCH), 5, 0.5)
    assert one.next_request(5, 0) is not None
    one.become_ready(6)
    one.heard(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True), 8, 0.5)
    assert one.due_ms == 8


def test_retry_delay_of_broker_heartbeats_doubles_up_to_the_session_timeout() -> None:
    one = lifecycle()
    one.start(0)
    waits, now_ms = [], 0.0
    for at in range(10):
        assert one.next_request(now_ms, 0) is not None
        if at % 2:
            one.failed(now_ms, 0.5)
        else:
            refusal = BrokerRegistrationResponse(error_code=Code.DUPLICATE_BROKER_REGISTRATION)
            assert not one.registered(refusal, now_ms, 0.5)
        assert one.due_ms is not None
        waits.append(one.due_ms - now_ms)
        now_ms = one.due_ms
    assert waits[:4] == [100, 200, 400, 800]
    assert waits[-1] == 9_000
    assert not one.is_registered


def test_refused_heartbeat_does_not_change_the_broker_lifecycle_state() -> None:
    one = lifecycle(running=True)
    assert one.next_request(2_000, 0) is not None
    one.heard(BrokerHeartbeatResponse(error_code=Code.NOT_CONTROLLER, is_fenced=True), 2_000, 0.5)
    assert (one.state, one.is_fenced, one.due_ms) == (BrokerState.RUNNING, False, 2_100)


def test_fenced_broker_stays_in_the_state_running() -> None:
    one = lifecycle(running=True)
    assert not beat(one, 2_000, fenced=True).want_fence
    assert (one.state, one.is_fenced) == (BrokerState.RUNNING, True)
    beat(one, 4_000, fenced=False)
    assert not one.is_fenced


def test_broker_missing_from_metadata_registers_again() -> None:
    one = lifecycle(running=True)
    one.register_again(50)
    assert isinstance(one.next_request(50, 0), BrokerRegistrationRequest)
    one.registered(BrokerRegistrationResponse(broker_epoch=EPOCH + 9), 60, 0.5)
    assert beat(one, 60).broker_epoch == EPOCH + 9


def test_broker_stops_when_the_controller_allows_it() -> None:
    one = lifecycle(running=True)
    one.begin_controlled_shutdown(500)
    assert not one.may_stop
    assert beat(one, 500).want_shut_down
    assert one.due_ms == 2_500
    assert beat(one, 2_500, shut_down=True).want_shut_down
    assert one.may_stop
    assert one.due_ms is None


def test_broker_without_leadership_stops_without_a_controlled_shutdown() -> None:
    one = lifecycle()
    one.begin_controlled_shutdown(0)
    assert one.may_stop
    started = lifecycle()
    started.start(0)
    started.next_request(0, 0)
    started.begin_controlled_shutdown(1)
    assert started.may_stop
    started.registered(BrokerRegistrationResponse(broker_epoch=EPOCH), 2, 0.5)
    assert started.due_ms is None


def test_second_shutdown_request_stops_the_broker_at_once() -> None:
    one = lifecycle(running=True)
    one.begin_controlled_shutdown(0)
    one.begin_shutdown()
    one.begin_shutdown()
    assert one.may_stop
    assert one.next_request(1e9, 0) is None
