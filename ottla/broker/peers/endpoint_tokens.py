"""The tokens from an OAuth endpoint (KIP-768) with which a node authenticates to other nodes.

The first token is requested at the start of the node, which fails without a token, as in Kafka. When most of a token's lifetime
has passed, a worker thread requests the next token, so that the event loop never waits for the endpoint. The previous token is used
until the next token arrives. All connections share a token; a failed request is repeated after a delay.
"""

from __future__ import annotations

import structlog

from ottla.broker.loop.env import Env
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.client.errors import ClientError
from ottla.client.security.client_config import Token, TokenEndpoint
from ottla.client.security.tokens import RENEW_AT, EndpointTokens

log = structlog.get_logger("peer")

RETRY_S = 10.0
"""Minimum time between two requests for a token, in seconds, also after a failure (Kafka's ExpiringCredentialRefreshingLogin)."""
UNKNOWN_LIFETIME_S = 60.0
"""Seconds until a token of unknown expiry is renewed: Kafka's default of sasl.login.refresh.min.period.seconds."""


class NodeTokens:
    """The current token from one OAuth endpoint."""

    def __init__(self, env: Env, endpoint: TokenEndpoint) -> None:
        """Request the first token. Raises `ClientError`."""
        self._env, self._endpoint = env, endpoint
        self._tokens = EndpointTokens(self._now_s)
        self._errors = RepeatedErrors(env, log)
        self._is_loading = False
        self._use(self._tokens.token(endpoint))

    def _now_s(self) -> float:
        return self._env.now_ms() / 1_000

    def _use(self, token: Token) -> None:
        self._token = token
        now_s = self._now_s()
        used_s = UNKNOWN_LIFETIME_S if token.expires_s is None else (token.expires_s - now_s) * RENEW_AT
        self._renew_s = now_s + max(used_s, RETRY_S)

    def current(self) -> Token:
        """Return the newest token, and request the next one if most of its lifetime has passed."""
        if self._now_s() >= self._renew_s and not self._is_loading:
            self._load()
        return self._token

    def _load(self) -> None:
        self._is_loading = True
        loaded: list[Token] = []

        def done(error: BaseException | None) -> None:
            self._is_loading = False
            if loaded:
                self._use(loaded[0])
                self._errors.succeeded(self._endpoint.url)
            else:
                self._renew_s = self._now_s() + RETRY_S
                reason = str(error) if isinstance(error, ClientError) else type(error).__name__
                self._errors.failed("token_not_loaded", reason, key=self._endpoint.url, url=self._endpoint.url)

        self._env.run_aside(lambda: loaded.append(self._tokens.token(self._endpoint)), done)
