"""One authentication of a connection to a peer by SASL, without a socket: turns received frames into the frames to send."""

from __future__ import annotations

from ottla.addresses import Address
from ottla.broker.peers.requests import AuthenticationRefused, OutOfOrder
from ottla.broker.peers.versions import Versions, key_of
from ottla.client.errors import ClientError
from ottla.client.security.authentication import authentication
from ottla.client.security.client_config import Connecting
from ottla.protocol.codec import decode_response_frame, request_frame

OLDEST_HANDSHAKE = 1
"""Lowest version of SaslHandshake after which tokens are sent in SaslAuthenticate requests (KIP-152)."""


class Authentication:
    """Authenticates this node on a connection whose API versions are known. `frame` is the first frame to send; `take` returns the
    following frames. Raises `AuthenticationRefused` for a peer without SASL."""

    def __init__(self, connecting: Connecting, address: Address, versions: Versions, client_id: str) -> None:
        self._steps = authentication(connecting, address)
        self._versions = versions
        self._client_id = client_id
        self._sent = (0, 0, 0)
        self.session_ms = 0.0
        """Lifetime of the session in ms, once the peer has accepted this node; 0 if unlimited (KIP-368)."""
        self.frame = self._frame(next(self._steps))

    def take(self, frame: memoryview) -> bytes | None:
        """Process a frame and return the next frame to send; None if the peer has accepted this node. Raises
        `AuthenticationRefused`, and `OutOfOrder` for a response that belongs to no request."""
        key, version, expected = self._sent
        correlation_id, response = decode_response_frame(key, version, frame)
        if correlation_id != expected:
            raise OutOfOrder(f"the response has correlation id {correlation_id} instead of {expected}")
        try:
            return self._frame(self._steps.send(response))
        except StopIteration as ended:
            self.session_ms = ended.value * 1_000
            return None
        except ClientError as error:
            raise AuthenticationRefused(str(error)) from None

    def _frame(self, request: object) -> bytes:
        key = key_of(request)
        version = self._versions.choose(key, 0 if self._sent[2] else OLDEST_HANDSHAKE)
        if version is None:
            raise AuthenticationRefused(f"the peer supports no version of API {key} with which this node can authenticate")
        self._sent = (key, version, self._sent[2] + 1)
        return request_frame(key, version, self._sent[2], self._client_id, request)
