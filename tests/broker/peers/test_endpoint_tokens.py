"""A broker's tokens from an OAuth endpoint: the first is requested at the start, later tokens in a worker thread."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.peers.endpoint_tokens import RETRY_S, UNKNOWN_LIFETIME_S, NodeTokens
from ottla.client.errors import ClientError
from ottla.client.security import tokens
from ottla.client.security.client_config import Secret, Token, TokenEndpoint
from tests.support.world import simulated_env

ENDPOINT = TokenEndpoint("https://host/token", "node", Secret("hush"), prefix="")
LIFETIME_S = 100.0


class Issuer:
    """A token endpoint that numbers its tokens."""

    def __init__(self) -> None:
        self.count = 0
        self.asked = 0
        self.is_down = False
        self.lifetime_s: float | None = LIFETIME_S

    def token(self, endpoint: TokenEndpoint, now_s: float) -> Token:
        self.asked += 1
        if self.is_down:
            raise ClientError("https://host/token returned 503 Service Unavailable")
        self.count += 1
        return Token(Secret(f"token {self.count}"), None if self.lifetime_s is None else now_s + self.lifetime_s)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    made = Issuer()
    monkeypatch.setattr(tokens, "_given_by", made.token)
    return made


def later(env: Any, seconds: float) -> None:
    env.scheduler.advance(round(seconds * 1_000))
    env.scheduler.settle()


def test_oauth_token_is_renewed_after_most_of_its_lifetime(issuer: Issuer) -> None:
    env = simulated_env()
    made = NodeTokens(env, ENDPOINT)
    later(env, 79)
    assert made.current().value.text == "token 1"
    later(env, 2)
    # The worker thread is still running, so a second connection requests no token.
    assert [made.current().value.text for _ in range(2)] == ["token 1"] * 2
    later(env, 1)
    assert (made.current().value.text, issuer.count) == ("token 2", 2)


def test_broker_start_fails_without_an_oauth_token_for_its_peers(issuer: Issuer) -> None:
    issuer.is_down = True
    with pytest.raises(ClientError, match="503"):
        NodeTokens(simulated_env(), ENDPOINT)


@pytest.mark.parametrize(("lifetime_s", "used_s"), [(None, UNKNOWN_LIFETIME_S), (0.0, RETRY_S), (-5.0, RETRY_S)])
def test_oauth_token_without_lifetime_is_reused_by_later_connections(
    issuer: Issuer, lifetime_s: float | None, used_s: float
) -> None:
    env, issuer.lifetime_s = simulated_env(), lifetime_s
    made = NodeTokens(env, ENDPOINT)
    for _ in range(10):
        assert made.current().value.text == "token 1"
        later(env, (used_s - 1) / 10)
    later(env, 2)
    made.current()
    later(env, 1)
    assert (made.current().value.text, issuer.asked) == ("token 2", 2)


def test_failed_renewal_of_an_oauth_token_is_logged_and_retried(issuer: Issuer) -> None:
    env = simulated_env()
    made = NodeTokens(env, ENDPOINT)
    issuer.is_down = True
    later(env, 90)
    with capture_logs() as lines:
        assert made.current().value.text == "token 1"
        later(env, 1)
    assert [(line["event"], line["url"]) for line in lines] == [("token_not_loaded", ENDPOINT.url)]
    assert "hush" not in str(lines)
    for _ in range(10):
        made.current()
        later(env, (RETRY_S - 2) / 10)
    assert issuer.asked == 2, "connections after the failure wait for the retry delay"
    issuer.is_down = False
    later(env, 3)
    made.current()
    later(env, 1)
    assert made.current().value.text == "token 2"
