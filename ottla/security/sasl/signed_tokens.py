"""Signed tokens (RFC 7515, KIP-768; BrokerJwtValidator): JWTs that are verified by the keys of an identity provider.

PyJWT parses tokens and keys and verifies signatures. Unlike joserfc, it works with older releases of the package cryptography. Only
asymmetric algorithms are allowed, so a public key can never serve as the secret of an HMAC. The times in a token are compared with
the broker's clock, not with PyJWT's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ottla.security.sasl.oauthbearer import BearerToken, TokenRefused
from ottla.security.sasl.unsecured_tokens import seconds_of

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
RSA = "RSA"
MIN_RSA_BITS = 2_048
MAX_KEYS_TRIED = 10
"""Maximum number of keys that are tried for a token without a key id. Each key takes one signature verification."""
MAX_KEYS = 1_000
EXTRA = "ottla[oauth]"
"""The extra that installs PyJWT."""


class KeySetError(ValueError):
    """A set of public keys (JWKS) that cannot be used."""


class KeySet:
    """The public keys of an identity provider (JWKS, RFC 7517)."""

    def __init__(self, text: bytes) -> None:
        """Parse a JWKS document. Keys that PyJWT does not support are left out. Raises `KeySetError`."""
        jwt = library()
        try:
            keys = jwt.PyJWKSet.from_dict(msgspec.json.decode(text, type=dict[str, Any])).keys
        except (jwt.PyJWTError, msgspec.MsgspecError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise KeySetError(f"it is not a JSON Web Key Set: {type(error).__name__}") from None
        self._keys = [key for key in keys[:MAX_KEYS] if _is_usable(key)]

    def candidates(self, key_id: object) -> list[Any]:
        """Return the keys that may have signed a token: the keys with its key id, or all keys if it has no key id."""
        found = self._keys if key_id is None else [key for key in self._keys if key.key_id == key_id]
        return found[:MAX_KEYS_TRIED]


class TokenTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The required content of a token (``sasl.oauthbearer.*``)."""

    audiences: tuple[str, ...]
    """The accepted audiences; empty to accept every audience."""
    issuer: str | None
    """The accepted issuer; None to accept every issuer."""
    skew_ms: int
    subject_claim: str
    """The claim with the name of the principal."""


class SignedTokens:
    """Validates signed tokens (`oauthbearer.TokenValidator`).

    ``keys`` returns the current keys; None before they were loaded. ``missed`` is called with the key id of a token if the key id
    is unknown, because the provider may have a new key.
    """

    def __init__(self, terms: TokenTerms, keys: Callable[[], KeySet | None], missed: Callable[[str], None]) -> None:
        self._terms = terms
        self._keys = keys
        self._missed = missed
        self._jwt = library()

    def validated(self, token: str, now_ms: int) -> BearerToken:
        claims = self._verified(token)
        terms = self._terms
        expires, issued, earliest = (seconds_of(claims, name) for name in ("exp", "iat", "nbf"))
        if expires is None or issued is None:
            raise TokenRefused("the token has no expiration time (exp), or no time of issue (iat)")
        if now_ms - terms.skew_ms >= 1_000 * expires:
            raise TokenRefused("the token has expired")
        if earliest is not None and earliest * 1_000 > now_ms + terms.skew_ms:
            raise TokenRefused("the token is not valid yet")
        if expires < max(issued, earliest or issued):
            raise TokenRefused("the token expires before it is issued or valid")
        principal = claims.get(terms.subject_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise TokenRefused(f"the token has no principal name in its claim {terms.subject_claim}")
        try:
            principal.encode()
        except UnicodeEncodeError:
            # Kafka accepts such a name, but sends and stores it with question marks, as another principal.
            reason = f"the principal name in the claim {terms.subject_claim} of the token is not Unicode text"
            raise TokenRefused(f"{reason}: half of a surrogate pair is missing") from None
        return BearerToken(principal=principal, expires_ms=round(expires * 1_000))

    def _verified(self, token: str) -> dict[str, Any]:
        """The claims of a token, after checking its signature, audience and issuer. Raises `TokenRefused`."""
        keys, jwt = self._keys(), self._jwt
        if keys is None:
            raise TokenRefused("the keys of the identity provider are not loaded yet")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefused("the token is not a JWT") from None
        if header.get("alg") not in ALGORITHMS:
            raise TokenRefused("the token is not signed by an allowed algorithm")
        candidates = keys.candidates(header.get("kid"))
        if not candidates:
            self._missed(header.get("kid") or "")
        reason = "the key of the token is unknown"
        for key in candidates:
            if not _may_sign(key, header["alg"]):
                continue
            try:
                return self._decoded(token, key.key, header["alg"])
            except jwt.InvalidSignatureError:
                reason = "the signature of the token is wrong"
            except jwt.PyJWTError as error:
                raise TokenRefused(f"the token is not valid: {type(error).__name__}") from None
        raise TokenRefused(reason)

    def _decoded(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        terms = self._terms
        checks = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": bool(terms.audiences)}
        claims: dict[str, Any] = self._jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=list(terms.audiences) or None,
            issuer=terms.issuer,
            options={**checks, "verify_iss": terms.issuer is not None, "verify_sub": False, "verify_jti": False},
        )
        return claims


def _is_usable(key: Any) -> bool:
    """Whether a PyJWK may verify tokens. Like jose4j, which Kafka uses, this refuses short RSA keys."""
    is_long = key.key_type != RSA or key.key.key_size >= MIN_RSA_BITS
    return key.public_key_use in (None, "sig") and key.algorithm_name in ALGORITHMS and is_long


def _may_sign(key: Any, algorithm: str) -> bool:
    """Whether a PyJWK may verify a token of this algorithm. As in Kafka, an RSA key may have any of RSA's algorithms, whatever
    ``alg`` of the key says: many providers leave ``alg`` out. For an elliptic curve, the curve decides."""
    if key.key_type == RSA:
        return algorithm.startswith(("RS", "PS"))
    return bool(key.algorithm_name == algorithm)


def library() -> Any:
    """PyJWT, imported at first use. Raises `KeySetError` without it."""
    try:
        import cryptography  # noqa: F401  # PyJWT needs it for asymmetric algorithms
        import jwt
    except ImportError:
        raise KeySetError(f"signed tokens need the packages PyJWT and cryptography; install {EXTRA}") from None
    return jwt
