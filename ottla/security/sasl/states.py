"""The states of a connection that authenticates, as a table (SaslServerAuthenticator.SaslState).

    INITIAL_REQUEST -> HANDSHAKE_OR_VERSIONS_REQUEST -> HANDSHAKE_REQUEST -> AUTHENTICATE -> COMPLETE
                                                                                               |
                                    AUTHENTICATE or REAUTH_BAD_MECHANISM <- REAUTH_PROCESS_HANDSHAKE

Every pair of a state and an event that `TRANSITIONS` does not contain leads to FAILED, which the connection never leaves.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """A state of the authentication, with Kafka's name and meaning."""

    INITIAL_REQUEST = "initial request"
    """No request was received. The next request is ApiVersions or SaslHandshake."""
    HANDSHAKE_OR_VERSIONS_REQUEST = "handshake or versions"
    """ApiVersions was refused. The client may repeat it in a version that is served."""
    HANDSHAKE_REQUEST = "handshake"
    """ApiVersions was answered. The next request is SaslHandshake."""
    AUTHENTICATE = "authenticate"
    """A mechanism was chosen. The client sends its tokens."""
    COMPLETE = "complete"
    FAILED = "failed"
    REAUTH_PROCESS_HANDSHAKE = "re-authentication"
    """An authenticated client re-authenticates (KIP-368), and has begun with SaslHandshake."""
    REAUTH_BAD_MECHANISM = "re-authentication by another mechanism"
    """The client has chosen another mechanism than in its first authentication. Its next request closes the connection."""


class Event(Enum):
    VERSIONS = "ApiVersions was answered"
    VERSIONS_REFUSED = "ApiVersions was answered with an error"
    HANDSHAKE = "SaslHandshake chose an enabled mechanism"
    UNSUPPORTED_MECHANISM = "SaslHandshake chose a mechanism that is not enabled"
    OTHER_MECHANISM = "SaslHandshake chose another mechanism than at the first authentication"
    CHALLENGE = "a token was answered with a challenge"
    PROVEN = "the last token was accepted"
    REFUSED = "a token was refused"
    REAUTHENTICATION = "SaslHandshake on an authenticated connection"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.INITIAL_REQUEST: {
        Event.VERSIONS: State.HANDSHAKE_REQUEST,
        Event.VERSIONS_REFUSED: State.HANDSHAKE_OR_VERSIONS_REQUEST,
        Event.HANDSHAKE: State.AUTHENTICATE,
    },
    State.HANDSHAKE_OR_VERSIONS_REQUEST: {
        Event.VERSIONS: State.HANDSHAKE_REQUEST,
        Event.VERSIONS_REFUSED: State.HANDSHAKE_OR_VERSIONS_REQUEST,
        Event.HANDSHAKE: State.AUTHENTICATE,
    },
    State.HANDSHAKE_REQUEST: {Event.HANDSHAKE: State.AUTHENTICATE},
    State.AUTHENTICATE: {Event.CHALLENGE: State.AUTHENTICATE, Event.PROVEN: State.COMPLETE},
    State.COMPLETE: {Event.REAUTHENTICATION: State.REAUTH_PROCESS_HANDSHAKE},
    State.REAUTH_PROCESS_HANDSHAKE: {
        Event.HANDSHAKE: State.AUTHENTICATE,
        Event.OTHER_MECHANISM: State.REAUTH_BAD_MECHANISM,
    },
    State.REAUTH_BAD_MECHANISM: {},
    State.FAILED: {},
}


def next_state(state: State, event: Event) -> State:
    return TRANSITIONS[state].get(event, State.FAILED)
