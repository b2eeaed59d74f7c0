"""Authenticates a connection by SASL, with SaslHandshake and SaslAuthenticate (KIP-43, KIP-152)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from ottla.addresses import Address, joined_address
from ottla.client.errors import ClientError
from ottla.client.security.client_config import MECHANISM, OAUTHBEARER, PLAIN, PROTOCOL, Connecting, Sasl
from ottla.client.security.sasl import Conversation, SaslFailure, oauthbearer, plain, scram
from ottla.client.security.tokens import token_of
from ottla.protocol.errors import Code
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.remedies import name_of
from ottla.random_tokens import random_token

RENEW_AT: Final = 0.85
"""Fraction of a session's lifetime after which a client or broker authenticates again (SaslClientAuthenticator, KIP-368)."""


def authenticate(exchange: Callable[[Any], Any], connecting: Connecting, address: Address) -> float:
    """Authenticate a connection. Returns the lifetime of the session in seconds; 0 if the session does not expire (KIP-368).

    ``exchange`` sends a request and returns the response. Raises `ClientError` if the broker rejects the client.
    """
    steps = authentication(connecting, address)
    request = next(steps)
    while True:
        try:
            request = steps.send(exchange(request))
        except StopIteration as ended:
            return float(ended.value)


def authentication(connecting: Connecting, address: Address) -> Generator[Any, Any, float]:
    """Generate the requests of one authentication. The generator yields each request, receives its response, and returns the
    lifetime of the session in seconds; 0 if the session does not expire. Raises `ClientError`."""
    sasl = connecting.sasl
    assert sasl is not None
    where = f"the broker at {joined_address(address)}"
    shaken = yield SaslHandshakeRequest(mechanism=sasl.mechanism)
    if shaken.error_code == Code.ILLEGAL_SASL_STATE:
        raise ClientError(
            f"{where} does not authenticate clients on this listener, but {connecting.prefix}{PROTOCOL} is {connecting.protocol}:"
            f" give {connecting.protocol.removeprefix('SASL_')}, or another port"
        )
    if shaken.error_code == Code.UNSUPPORTED_SASL_MECHANISM:
        taken = ", ".join(sorted(shaken.mechanisms)) or "no other"
        raise ClientError(f"{where} does not support {connecting.prefix}{MECHANISM} {sasl.mechanism}, but {taken}")
    if shaken.error_code:
        raise ClientError(f"{where} refused SaslHandshake with {name_of(shaken.error_code)}")
    try:
        conversation = _conversation(sasl)
        said = next(conversation)
        while True:
            answer = yield SaslAuthenticateRequest(auth_bytes=said)
            if answer.error_code:
                raise SaslFailure(f"{name_of(answer.error_code)}: {(answer.error_message or '')[:500]}")
            lifetime_s = answer.session_lifetime_ms / 1_000
            said = conversation.send(answer.auth_bytes)
    except StopIteration:
        return float(lifetime_s)
    except SaslFailure as failure:
        who = f" of {sasl.username!r}" if sasl.username else ""
        line = " ".join(str(failure).split())
        raise ClientError(f"authentication{who} by {sasl.mechanism} at {joined_address(address)} failed: {line}") from None


def _conversation(sasl: Sasl) -> Conversation:
    if sasl.mechanism == PLAIN:
        return plain(sasl.username, sasl.password.text)
    if sasl.mechanism == OAUTHBEARER:
        token = token_of(sasl)
        return oauthbearer(token.value.text, token.extensions)
    return scram(sasl.mechanism, sasl.username, sasl.password.text, random_token(), is_delegated=sasl.is_delegated)
