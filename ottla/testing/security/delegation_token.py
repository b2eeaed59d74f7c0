"""The delegation token that a handle has created for a client."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token (KIP-48), with which a client acts as the token's owner until the token expires."""

    token_id: str
    hmac: str = field(repr=False)
    """The client's secret, in base64."""
    owner: str
    expires_ms: int
    """The end of the token on the broker's clock, in ms since 1970."""
