"""Makes unsecured tokens (RFC 7515, A.5) from the options of a login module: Kafka's default for OAUTHBEARER, for tests only.

The options are those of OAuthBearerUnsecuredLoginCallbackHandler: ``unsecuredLoginStringClaim_NAME``, and the same for NumberClaim,
ListClaim and Extension, ``unsecuredLoginPrincipalClaimName`` and ``unsecuredLoginLifetimeSeconds``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ottla.client.errors import ClientError
from ottla.client.security.client_config import Secret, Token

OPTIONS = "unsecuredLogin"
LIFETIME_S = 3_600


def unsecured_login(options: Mapping[str, str], now_s: Callable[[], float]) -> Callable[[], Token]:
    """Return a function that makes tokens. Raises `ClientError` for options that cannot be used."""

    def of(kind: str) -> dict[str, str]:
        prefix = OPTIONS + kind
        return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}

    claims: dict[str, Any] = {**of("StringClaim_")}
    for name, value in of("ListClaim_").items():
        # The first character of a ListClaim's value separates the elements.
        claims[name] = value[1:].split(value[0]) if value else []
    for name, value in of("NumberClaim_").items():
        claims[name] = _number(f"{OPTIONS}NumberClaim_{name}", value)
    principal = options.get(f"{OPTIONS}PrincipalClaimName", "").strip() or "sub"
    if not isinstance(claims.get(principal), str) or not claims[principal].strip():
        raise ClientError(f"no principal name is set; give {OPTIONS}StringClaim_{principal}")
    lifetime_s = _number(f"{OPTIONS}LifetimeSeconds", options.get(f"{OPTIONS}LifetimeSeconds", str(LIFETIME_S)))
    extensions = of("Extension_")

    def token() -> Token:
        began_s = now_s()
        expires_s = began_s + lifetime_s
        parts = ({"alg": "none"}, {"iat": began_s, "exp": expires_s, **claims})
        text = ".".join(base64.urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=").decode() for part in parts)
        return Token(Secret(f"{text}."), expires_s, extensions)

    return token


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ClientError(f"{name} is not a number") from None
