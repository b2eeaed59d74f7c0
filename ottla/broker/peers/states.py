"""The states of a connection to a peer, and the allowed transitions."""

from __future__ import annotations

from enum import Enum


class PeerState(Enum):
    IDLE = "idle"
    """There is no connection, and no request that needs a connection."""
    CONNECTING = "connecting"
    GREETING = "greeting"
    """Connected. The response to ApiVersions has not arrived, so no other request is sent."""
    AUTHENTICATING = "authenticating"
    """This node authenticates by SASL, for the first time or again. No other request is sent."""
    READY = "ready"
    BACKING_OFF = "backing off"
    """The last connection failed. A delay must pass before the next attempt."""
    CLOSED = "closed"


FOLLOWING: dict[PeerState, frozenset[PeerState]] = {
    PeerState.IDLE: frozenset({PeerState.CONNECTING, PeerState.CLOSED}),
    PeerState.CONNECTING: frozenset({PeerState.GREETING, PeerState.BACKING_OFF, PeerState.CLOSED}),
    PeerState.GREETING: frozenset({PeerState.READY, PeerState.AUTHENTICATING, PeerState.BACKING_OFF, PeerState.CLOSED}),
    PeerState.AUTHENTICATING: frozenset({PeerState.READY, PeerState.BACKING_OFF, PeerState.CLOSED}),
    PeerState.READY: frozenset({PeerState.IDLE, PeerState.AUTHENTICATING, PeerState.BACKING_OFF, PeerState.CLOSED}),
    PeerState.BACKING_OFF: frozenset({PeerState.CONNECTING, PeerState.IDLE, PeerState.CLOSED}),
    PeerState.CLOSED: frozenset(),
}


class IllegalState(Exception):
    """A transition that the table `FOLLOWING` does not allow, which is a bug."""


def check_transition(state: PeerState, following: PeerState) -> None:
    if following not in FOLLOWING[state]:
        raise IllegalState(f"a connection that is {state.value} cannot become {following.value}")
