"""Unsecured tokens (RFC 7515, A.5), which every client can make: Kafka's default for OAUTHBEARER, for development and tests only.

The options are those of OAuthBearerUnsecuredValidatorCallbackHandler: ``unsecuredValidatorPrincipalClaimName``,
``unsecuredValidatorScopeClaimName``, ``unsecuredValidatorRequiredScope`` and ``unsecuredValidatorAllowableClockSkewMs``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from ottla.security.sasl.oauthbearer import BearerToken, TokenRefused

OPTIONS = "unsecuredValidator"
"""Prefix of the options that a login module has for unsecured tokens."""
MAX_SECONDS = 1 << 53
"""Maximum time in a token, in seconds: larger floating-point numbers are not exact."""


class OptionError(ValueError):
    """An option for unsecured tokens that cannot be used."""


class UnsecuredTokens:
    """Validates unsecured tokens (`oauthbearer.TokenValidator`)."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """``options`` are the options of the login module. Raises `OptionError`."""

        def option(name: str, default: str) -> str:
            return options.get(OPTIONS + name, "").strip() or default

        self._principal_claim = option("PrincipalClaimName", "sub")
        self._scope_claim = option("ScopeClaimName", "scope")
        self._required_scope = option("RequiredScope", "").split()
        skew = option("AllowableClockSkewMs", "0")
        if not (skew.isascii() and skew.isdigit()) or len(skew) > 9:
            raise OptionError(f"{OPTIONS}AllowableClockSkewMs: {skew!r} is not a number of ms")
        self._skew_ms = int(skew)

    def validated(self, token: str, now_ms: int) -> BearerToken:
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenRefused("Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded values")
        header, claims = _decoded(parts[0]), _decoded(parts[1])
        if header.get("alg") != "none":
            raise TokenRefused("Unsecured JWS must have 'none' for an algorithm")
        if parts[2]:
            raise TokenRefused("Unsecured JWS must not contain a digital signature")
        expires, issued = seconds_of(claims, "exp"), seconds_of(claims, "iat")
        if expires is None:
            raise TokenRefused("No expiration time in JWT")
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise TokenRefused(f"No principal name in JWT claim: {self._principal_claim}")
        if issued is not None and 1_000 * issued > now_ms + self._skew_ms:
            raise TokenRefused("The Issued At value was after the indicated time plus allowable clock skew")
        if now_ms - self._skew_ms >= 1_000 * expires:
            raise TokenRefused("The indicated time minus allowable clock skew was on or after the Expiration Time value")
        if issued is not None and expires <= issued:
            raise TokenRefused("The Expiration Time time was not after the Issued At time")
        self._check_scope(claims)
        return BearerToken(principal=principal, expires_ms=round(expires * 1_000))

    def _check_scope(self, claims: Mapping[str, Any]) -> None:
        scope = claims.get(self._scope_claim)
        own = {scope.strip()} if isinstance(scope, str) else set(map(str, scope)) if isinstance(scope, list) else set[str]()
        for required in self._required_scope:
            if required not in own:
                text = f"[{', '.join(self._required_scope)}]"
                raise TokenRefused("The provided scope was missing a required scope", "insufficient_scope", text)


def _decoded(part: str) -> dict[str, Any]:
    """Decode a part of a token, which is JSON in Base64."""
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        decoded = msgspec.json.decode(raw, type=dict[str, Any])
    except (binascii.Error, msgspec.MsgspecError, ValueError, RecursionError):
        raise TokenRefused("malformed JSON or Base64 URL encoded value") from None
    return decoded


def seconds_of(claims: Mapping[str, Any], name: str) -> float | None:
    """A time in seconds since 1970; None if the claim does not exist."""
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # The comparison with the bounds also refuses NaN and infinity.
    if not is_number or not -MAX_SECONDS <= value <= MAX_SECONDS:
        raise TokenRefused(f"The '{name}' claim was not of type Number")
    return float(value)
