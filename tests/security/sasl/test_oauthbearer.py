"""OAUTHBEARER reads and refuses messages like Kafka's OAuthBearerSaslServer, and unsecured tokens like Kafka's validator."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ottla.security.sasl.exchange import SaslFailed, SaslRefused
from ottla.security.sasl.oauthbearer import OAuthBearerExchange, OAuthBearerMechanism
from ottla.security.sasl.unsecured_tokens import OptionError, UnsecuredTokens

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1_000


def part(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def token(header: Any = None, signature: str = "", **claims: Any) -> str:
    claims = {"sub": "alice", "exp": NOW_S + 600, "iat": NOW_S - 5} | claims
    kept = {name: value for name, value in claims.items() if value is not None}
    return f"{part({'alg': 'none'} if header is None else header)}.{part(kept)}.{signature}"


def message(text: str, header: str = "n,,", extensions: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {text}\x01{extensions}\x01".encode()


def exchange(**options: str) -> OAuthBearerExchange:
    return OAuthBearerMechanism(UnsecuredTokens(options)).exchange("nonce")


@pytest.mark.parametrize(
    "sent", [message(token()), message(token(), "n,a=alice,"), message(token(), extensions="team=red blue\x01")]
)
def test_valid_oauthbearer_token_authenticates_its_subject_until_it_expires(sent: bytes) -> None:
    made = exchange()
    assert made.respond(sent, NOW_MS) == b""
    assert (made.is_complete, made.user, made.expires_ms) == (True, "alice", NOW_MS + 600_000)


def test_refused_oauthbearer_token_fails_after_the_client_has_read_the_error() -> None:
    made = exchange()
    assert made.respond(message(token(exp=NOW_S)), NOW_MS) == b'{"status":"invalid_token"}'
    assert not made.is_complete
    with pytest.raises(SaslRefused, match=r'^{"status":"invalid_token"}$'):
        made.respond(b"\x01", NOW_MS)


def test_oauthbearer_error_names_the_missing_token_scope() -> None:
    made = exchange(unsecuredValidatorRequiredScope="read write")
    answer = made.respond(message(token(scope=["read"])), NOW_MS)
    assert answer == b'{"status":"insufficient_scope", "scope":"[read, write]"}'


@pytest.mark.parametrize(
    "bad",
    [
        token(header={"alg": "RS256"}),
        token(header={}),
        token(header=b"\xff{"),
        token(header=[]),
        token(signature="x"),
        token(exp=None),
        token(exp="1"),
        token(exp=True),
        token(exp=10**400),
        token(exp=NOW_S),
        token(sub=None),
        token(sub=" "),
        token(sub=7),
        token(sub="\ud800"),
        token(sub="alice\udc00"),
        token(iat=NOW_S + 1),
        token(iat=NOW_S + 700, exp=NOW_S + 600),
        "a.b",
        "a..",
        "a",
        "e30.e30.",
        f"{'W1' * 20000}.e30.",
    ],
)
def test_invalid_oauthbearer_token_is_refused(bad: str) -> None:
    assert exchange().respond(message(bad), NOW_MS) == b'{"status":"invalid_token"}'


def test_oauthbearer_options_configure_token_claims_and_clock_skew() -> None:
    options = {"PrincipalClaimName": "user", "ScopeClaimName": "roles", "RequiredScope": "a b", "AllowableClockSkewMs": "2000"}
    made = exchange(**{f"unsecuredValidator{name}": value for name, value in options.items()})
    made.respond(message(token(sub=None, user="bob", roles=["b", "a"], exp=NOW_S - 1)), NOW_MS)
    assert made.user == "bob"


@pytest.mark.parametrize("skew", ["-1", "x", "1e3", "9" * 20])
def test_oauthbearer_clock_skew_that_is_not_a_number_is_refused(skew: str) -> None:
    with pytest.raises(OptionError, match="is not a number of ms"):
        UnsecuredTokens({"unsecuredValidatorAllowableClockSkewMs": skew})


def test_oauthbearer_with_another_authorization_id_is_refused() -> None:
    with pytest.raises(SaslRefused, match=r"authorization id \(bob\) that is different from the token's principal name \(alice\)"):
        exchange().respond(message(token(), "n,a=bob,"), NOW_MS)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,auth=Bearer abc",
        b"n,,\x01auth=Bearer " + b"a" * (64 << 10) + b"\x01\x01",
    ],
)
def test_malformed_oauthbearer_message_is_refused(sent: bytes) -> None:
    with pytest.raises(SaslFailed, match="OAUTHBEARER client first message"):
        exchange().respond(sent, NOW_MS)
