"""Signed tokens are verified by the keys of a JWKS document, for the audience and the issuer that the broker expects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ottla.security.sasl.oauthbearer import BearerToken, TokenRefused
from ottla.security.sasl.signed_tokens import KeySet, KeySetError, SignedTokens, TokenTerms
from tests.security.sasl.test_oauthbearer import NOW_MS, NOW_S, token

jwt = pytest.importorskip("jwt")

RSA = rsa.generate_private_key(65_537, 2_048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(65_537, 2_048)
TERMS = TokenTerms(audiences=("kafka", "other"), issuer="https://id", skew_ms=30_000, subject_claim="sub")


def jwk(key: Any, algorithm: str, **fields: str) -> dict[str, Any]:
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return made | {"alg": algorithm} | fields


SECRET = {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "alg": "HS256", "kid": "h"}
KEYS = KeySet(json.dumps({"keys": [jwk(RSA, "RS256", kid="r"), jwk(EC, "ES256", kid="e"), SECRET]}).encode())


def signed(key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "r", **claims: Any) -> str:
    claims = {"sub": "alice", "exp": NOW_S + 600, "iat": NOW_S - 5, "aud": "kafka", "iss": "https://id"} | claims
    kept = {name: value for name, value in claims.items() if value is not None}
    made: str = jwt.encode(kept, key, algorithm=algorithm, headers={} if key_id is None else {"kid": key_id})
    return made


def validated(text: str, keys: KeySet | None = KEYS, terms: TokenTerms = TERMS, missed: Any = lambda key_id: None) -> BearerToken:
    return SignedTokens(terms, lambda: keys, missed).validated(text, NOW_MS)


@pytest.mark.parametrize(
    "text",
    [
        signed(),
        signed(EC, "ES256", "e"),
        signed(key_id=None),
        signed(aud=["x", "other"]),
        signed(exp=NOW_S - 29, iat=NOW_S - 29),
        signed(iat=NOW_S + 600),
        signed(nbf=NOW_S + 30),
        signed(RSA, "RS512"),
        signed(RSA, "PS384"),
    ],
)
def test_jwt_signed_by_the_provider_is_valid(text: str) -> None:
    assert validated(text).principal == "alice"


def test_signed_jwt_is_valid_until_it_expires() -> None:
    assert validated(signed()).expires_ms == NOW_MS + 600_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (signed(STRANGER), "the signature of the token is wrong"),
        (signed(STRANGER, key_id=None), "the signature of the token is wrong"),
        (signed(key_id="unknown"), "the key of the token is unknown"),
        (signed(EC, "ES256", "r"), "the key of the token is unknown"),
        (signed("secret" * 6, "HS256", "h"), "the token is not signed by an allowed algorithm"),
        (token(), "the token is not signed by an allowed algorithm"),
        (signed(aud="else"), "the token is not valid: InvalidAudienceError"),
        (signed(aud=None), "the token is not valid: MissingRequiredClaimError"),
        (signed(iss="https://else"), "the token is not valid: InvalidIssuerError"),
        (signed(iss=None), "the token is not valid: MissingRequiredClaimError"),
        (signed(exp=NOW_S - 30), "the token has expired"),
        (signed(exp=None), "the token has no expiration time"),
        (signed(iat=None), "the token has no expiration time"),
        (signed(iat=NOW_S + 601), "the token expires before it is issued or valid"),
        (signed(exp=NOW_S + 9, nbf=NOW_S + 10), "the token expires before it is issued or valid"),
        (signed(nbf=NOW_S + 31), "the token is not valid yet"),
        (signed(sub=None), "the token has no principal name in its claim sub"),
        (signed(sub="\ud800"), "the principal name in the claim sub of the token is not Unicode text"),
        (signed(sub="alice\udc00"), "the principal name in the claim sub of the token is not Unicode text"),
        ("abc", "the token is not a JWT"),
        ("a.b.c", "the token is not a JWT"),
    ],
)
def test_invalid_signed_jwt_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason):
        validated(text)


def test_rsa_key_needs_no_algorithm_and_2048_bits() -> None:
    short = rsa.generate_private_key(65_537, 1_024)
    keys = [jwk(RSA, "RS256", kid="r"), jwk(short, "RS256", kid="s"), jwk(RSA, "RS256", kid="c", use="enc")]
    del keys[0]["alg"]
    made = KeySet(json.dumps({"keys": keys}).encode())
    assert validated(signed(RSA, "RS384"), keys=made).principal == "alice"
    assert made.candidates("s") == made.candidates("c") == []


def test_jwt_audience_and_issuer_are_not_checked_when_unset() -> None:
    terms = TokenTerms(audiences=(), issuer=None, skew_ms=0, subject_claim="name")
    assert validated(signed(aud="else", iss=None, name="bob"), terms=terms).principal == "bob"


def test_jwt_with_an_unknown_key_id_is_reported_so_that_keys_can_be_reloaded() -> None:
    missed: list[str] = []
    for text in (signed(key_id="new"), signed(STRANGER)):
        with pytest.raises(TokenRefused):
            validated(text, missed=missed.append)
    assert missed == ["new"]


def test_no_signed_jwt_is_valid_before_the_keys_are_loaded() -> None:
    with pytest.raises(TokenRefused, match="not loaded yet"):
        validated(signed(), keys=None)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"{}", b'{"keys":[]}', b'{"keys":7}', b'{"keys":[{"kty":"x"}]}', b'{"keys":[7]}', b'{"a":' + b"[" * 100_000],
    ids=lambda text: repr(text[:20]),
)
def test_jwks_document_without_usable_keys_is_refused(text: bytes) -> None:
    with pytest.raises(KeySetError, match="is not a JSON Web Key Set"):
        KeySet(text)
