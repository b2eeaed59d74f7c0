"""The authentication of one connection (org.apache.kafka.common.security.authenticator.SaslServerAuthenticator).

The caller decodes the client's requests, and passes ApiVersions, SaslHandshake and SASL tokens to `SaslServer`. The caller also
sends the responses, and closes the connection in state FAILED. A client authenticates again before its session ends (KIP-368).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ottla.protocol.errors import Code
from ottla.security.principal import ANONYMOUS, USER, KafkaPrincipal
from ottla.security.sasl.exchange import Exchange, Mechanism, SaslFailed, SaslRefused
from ottla.security.sasl.states import Event, State, next_state

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
MIN_REAUTHENTICATION_MS = 1_000
"""Minimum time between two re-authentications of a connection, in ms (KafkaChannel)."""
_BEFORE_HANDSHAKE = frozenset({State.INITIAL_REQUEST, State.HANDSHAKE_OR_VERSIONS_REQUEST, State.HANDSHAKE_REQUEST})


class SaslTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How the clients of one listener authenticate."""

    mechanisms: Mapping[str, Mechanism]
    """The enabled mechanisms by name."""
    max_session_ms: Mapping[str, int]
    """``connections.max.reauth.ms`` by mechanism; 0 for sessions without an end."""


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a SaslAuthenticate response. ``reason`` is for the broker's log, if the client was refused."""

    code: Code = Code.NONE
    message: str = ""
    token: bytes = b""
    session_lifetime_ms: int = 0
    reason: str = ""


class SaslServer:
    """The state of one connection, from the first request on."""

    __slots__ = (
        "_exchange",
        "_first_mechanism",
        "_terms",
        "began_ms",
        "ends_ms",
        "has_headers",
        "is_by_token",
        "mechanism",
        "principal",
        "state",
    )

    def __init__(self, terms: SaslTerms) -> None:
        self._terms = terms
        self._exchange: Exchange | None = None
        self._first_mechanism = ""
        self.began_ms: int | None = None
        """When the last re-authentication began, in ms of a steady clock; None before the first re-authentication."""
        self.state = State.INITIAL_REQUEST
        self.mechanism = ""
        self.has_headers = False
        """Whether tokens come in SaslAuthenticate requests (SaslHandshake 1, KIP-152), or as bare frames (SaslHandshake 0)."""
        self.principal, self.is_by_token = ANONYMOUS, False
        self.ends_ms: int | None = None
        """When the session ends, in ms of a steady clock; None if it does not."""

    def _went(self, event: Event) -> None:
        self.state = next_state(self.state, event)

    @property
    def is_again(self) -> bool:
        """Whether the client re-authenticates."""
        return bool(self._first_mechanism)

    def expects(self, key: int) -> bool:
        """Whether a request of this API may be decoded now. Any other request ends the connection without a response.

        While tokens are expected, every request may be decoded: Kafka answers requests of other APIs with ILLEGAL_SASL_STATE.
        """
        if self.state in _BEFORE_HANDSHAKE:
            # A second ApiVersions request is refused, as in Kafka.
            return key == SASL_HANDSHAKE or (key == API_VERSIONS and self.state is not State.HANDSHAKE_REQUEST)
        if self.state is State.REAUTH_PROCESS_HANDSHAKE:
            return key == SASL_HANDSHAKE
        return self.state is State.AUTHENTICATE

    def fail(self) -> None:
        """End the authentication, because the client has violated the protocol."""
        self.state = State.FAILED

    def versions_answered(self, code: int) -> None:
        self._went(Event.VERSIONS if code == Code.NONE else Event.VERSIONS_REFUSED)

    def handshake(self, mechanism: str, version: int, nonce: str) -> Code:
        """Choose the mechanism that the client requests. ``nonce`` is a random text (`exchange.Mechanism`)."""
        if version >= 1:
            self.has_headers = True
        enabled = self._terms.mechanisms.get(mechanism)
        if enabled is None:
            self._went(Event.UNSUPPORTED_MECHANISM)
            return Code.UNSUPPORTED_SASL_MECHANISM
        if self.is_again and mechanism != self._first_mechanism:
            self._went(Event.OTHER_MECHANISM)
            return Code.NONE
        self.mechanism, self._exchange = mechanism, enabled.exchange(nonce)
        self._went(Event.HANDSHAKE)
        return Code.NONE

    @property
    def mechanisms(self) -> list[str]:
        """The enabled mechanisms, for the response to SaslHandshake."""
        return list(self._terms.mechanisms)

    def token(self, token: bytes, now_ms: int, steady_ms: int) -> TokenAnswer:
        """Handle the client's next token. ``now_ms`` is the wall clock's time, with which the expiry of credentials is compared."""
        exchange = self._exchange
        assert exchange is not None, self.state
        try:
            answer = exchange.respond(token, now_ms)
            if exchange.is_complete:
                self._authenticated(exchange)
        except SaslRefused as error:
            self._went(Event.REFUSED)
            return TokenAnswer(code=Code.SASL_AUTHENTICATION_FAILED, message=str(error), reason=str(error))
        except SaslFailed as error:
            # The client must not see the reason: it may say whether a user exists.
            text = "re-authentication" if self.is_again else "authentication"
            message = f"Authentication failed during {text} due to invalid credentials with SASL mechanism {self.mechanism}"
            self._went(Event.REFUSED)
            return TokenAnswer(code=Code.SASL_AUTHENTICATION_FAILED, message=message, reason=str(error))
        if not exchange.is_complete:
            self._went(Event.CHALLENGE)
            return TokenAnswer(token=answer)
        lifetime_ms = self._session_ms(exchange, now_ms)
        self.ends_ms = None if lifetime_ms is None else steady_ms + lifetime_ms
        self._first_mechanism, self._exchange = self.mechanism, None
        self._went(Event.PROVEN)
        return TokenAnswer(token=answer, session_lifetime_ms=lifetime_ms or 0)

    def _authenticated(self, exchange: Exchange) -> None:
        """Set the principal. Raises `SaslRefused` if a re-authentication would change it."""
        principal, before = KafkaPrincipal(USER, exchange.user), self.principal
        if self.is_again and principal != before:
            raise SaslRefused(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}:"
                f" {principal.type}.{principal.name}"
            )
        self.principal, self.is_by_token = principal, exchange.is_token

    def _session_ms(self, exchange: Exchange, now_ms: int) -> int | None:
        """Return the maximum duration of the session; None for no limit. The credential's expiry may shorten it."""
        limits = [ms for ms in (self._terms.max_session_ms.get(self.mechanism, 0),) if ms > 0]
        if exchange.expires_ms is not None:
            limits.append(exchange.expires_ms - now_ms)
        return max(0, min(limits)) if limits else None

    def has_ended(self, steady_ms: int) -> bool:
        """Whether the session has ended. If so, no request but a re-authentication may be handled."""
        return self.ends_ms is not None and steady_ms > self.ends_ms

    def end_session(self, steady_ms: int) -> bool:
        """End the session now, as if its time were over. Returns False for a client that is not authenticated."""
        if self.state is not State.COMPLETE:
            return False
        self.ends_ms = steady_ms - 1
        return True

    def reauthenticate(self, steady_ms: int) -> bool:
        """Begin a re-authentication. Returns False if the connection's session has no end, or if the last re-authentication began
        too recently. After False, SaslHandshake gets the error response of an authenticated connection (KafkaChannel).
        """
        if self.ends_ms is None or (self.began_ms is not None and steady_ms - self.began_ms < MIN_REAUTHENTICATION_MS):
            return False
        self.began_ms = steady_ms
        self._went(Event.REAUTHENTICATION)
        return True
