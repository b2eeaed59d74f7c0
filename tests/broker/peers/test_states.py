"""The states of a connection to a peer."""

from __future__ import annotations

import pytest

from ottla.broker.peers.backoff import Backoff
from ottla.broker.peers.states import FOLLOWING, IllegalState, PeerState, check_transition


def test_transition_table_of_peer_connections_is_complete_and_every_state_can_close() -> None:
    assert set(FOLLOWING) == set(PeerState)
    assert all(PeerState.CLOSED in FOLLOWING[state] for state in PeerState if state is not PeerState.CLOSED)
    assert not FOLLOWING[PeerState.CLOSED]


def test_every_peer_connection_state_is_reachable_from_idle() -> None:
    reached, left = {PeerState.IDLE}, [PeerState.IDLE]
    while left:
        new = FOLLOWING[left.pop()] - reached
        reached |= new
        left += new
    assert reached == set(PeerState)


@pytest.mark.parametrize(
    ("state", "following"),
    [(PeerState.IDLE, PeerState.READY), (PeerState.CONNECTING, PeerState.READY), (PeerState.CLOSED, PeerState.CONNECTING)],
)
def test_illegal_state_transitions_of_peer_connections_raise(state: PeerState, following: PeerState) -> None:
    with pytest.raises(IllegalState, match=f"is {state.value} cannot become {following.value}"):
        check_transition(state, following)


def test_reconnect_backoff_doubles_to_its_maximum_and_resets_after_success() -> None:
    backoff = Backoff(first_ms=50, longest_ms=1_000)
    assert [backoff.next_ms(0.5) for _ in range(7)] == [50, 100, 200, 400, 800, 1_000, 1_000]
    backoff.reset()
    assert backoff.next_ms(0.5) == 50


def test_reconnect_backoff_jitter_is_a_fifth_and_never_exceeds_the_maximum() -> None:
    assert Backoff(first_ms=100, longest_ms=1_000).next_ms(0.0) == 80
    assert 119 < Backoff(first_ms=100, longest_ms=1_000).next_ms(0.999) <= 120
    assert Backoff(first_ms=1_000, longest_ms=1_000).next_ms(0.999) == 1_000


def test_reconnect_backoff_does_not_overflow_after_many_failures() -> None:
    backoff = Backoff(first_ms=50, longest_ms=1_000, failures=10_000_000)
    assert backoff.next_ms(0.5) == 1_000
