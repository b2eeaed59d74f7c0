"""The interface of all mechanisms: one exchange with a client, and its errors (javax.security.sasl.SaslServer)."""

from __future__ import annotations

from typing import Protocol


class SaslRefused(Exception):
    """The client is refused, with a message that the client may see (SaslAuthenticationException)."""


class SaslFailed(Exception):
    """The client is refused. The reason is for the broker's log only, because it may say whether a user exists (SaslException)."""


class Exchange(Protocol):
    """The server's side of one exchange. An exchange that has raised an error cannot be continued."""

    is_complete: bool
    """Whether the client is authenticated, and sends no further token."""
    user: str
    """The name of the authenticated user. Empty until the exchange is complete."""
    is_token: bool
    """Whether the client's credential is a delegation token, and ``user`` its owner."""
    expires_ms: int | None
    """When the client's credential expires, in ms since 1970; None if it does not."""

    def respond(self, token: bytes, now_ms: int) -> bytes:
        """Return the response to a token of the client. Raises `SaslRefused` or `SaslFailed`."""
        ...


class Mechanism(Protocol):
    """One enabled mechanism of a listener."""

    def exchange(self, nonce: str) -> Exchange:
        """Begin an exchange. ``nonce`` is a random text of printable characters without commas."""
        ...
