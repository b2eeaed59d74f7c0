"""Users of scenarios. They authenticate with unsecured tokens, so that a case can define its own users."""

from __future__ import annotations

import base64
import json
import time

from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import RawClient

MECHANISM = "OAUTHBEARER"
LIFETIME_S = 3_600
_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
USERS_SETTINGS = {
    "sasl.enabled.mechanisms": MECHANISM,
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": _LOGIN,
}
"""Settings of a listener that accepts unsecured tokens."""


def authenticated(client: RawClient, user: str) -> RawClient:
    """Authenticate the client as ``User:user``, and return it."""
    now_s = int(time.time())
    token = f"{_part({'alg': 'none'})}.{_part({'sub': user, 'iat': now_s - 5, 'exp': now_s + LIFETIME_S})}."
    client.call(SaslHandshakeRequest(mechanism=MECHANISM), 1)
    answer = client.call(SaslAuthenticateRequest(auth_bytes=f"n,,\x01auth=Bearer {token}\x01\x01".encode()), 2)
    assert answer.error_code == 0, answer.error_message
    return client


def _part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
