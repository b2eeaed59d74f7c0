"""A connection to one broker with the TLS and SASL settings of `client_config.Connecting`; authenticates again before the session
ends."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections import deque
from typing import Any, Final

from ottla.addresses import Address
from ottla.protocol.codec import API_VERSIONS_KEY, DECODE_FAILURES, decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.remedies import name_of
from ottla.spark.cluster.client_config import MECHANISM, OAUTHBEARER, PLAIN, PREFIX, PROTOCOL, Connecting, Sasl
from ottla.spark.cluster.diagnosis import diagnosis
from ottla.spark.cluster.sasl import Conversation, SaslFailure, oauthbearer, plain, scram
from ottla.spark.cluster.tls import wrapped
from ottla.spark.cluster.tokens import token_of
from ottla.spark.errors import NotServed, PipelineError

CLIENT_ID: Final = "ottla-pipeline"
TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
"""Timeout for opening a connection, in seconds (socket.connection.setup.timeout.ms of Kafka's clients). Another address may be
reachable."""
MAX_RESPONSE_BYTES: Final = 100 << 20
MAX_STRANGERS_RESPONSE_BYTES: Final = 1 << 20
"""Largest response, in bytes, before authentication."""
RENEW_AT: Final = 0.85
"""Fraction of a session's lifetime after which the client authenticates again (SaslClientAuthenticator, KIP-368)."""

VERSIONS: Final = {
    "ApiVersions": (0, 3),
    "CreateTopics": (2, 7),
    "DescribeConfigs": (1, 4),
    "DescribeTransactions": (0, 0),
    "EndTxn": (5, 5),
    "Fetch": (4, 12),
    "FindCoordinator": (1, 6),
    "InitProducerId": (0, 5),
    "ListOffsets": (2, 7),
    "Metadata": (4, 12),
    "OffsetCommit": (2, 9),
    "OffsetFetch": (2, 9),
    "Produce": (12, 12),
    "SaslAuthenticate": (0, 2),
    "SaslHandshake": (1, 1),
    "TxnOffsetCommit": (5, 5),
}
"""Oldest and newest version of each request. They contain all needed fields, and identify topics by name, not by id.

Transaction version 2 begins with Produce 12, EndTxn 5 and TxnOffsetCommit 5. Stock producers do not use this module.
"""
_UNSUPPORTED: Final = Code.UNSUPPORTED_VERSION.to_bytes(2, "big")
_KEYS = {entry.name: key for key, entry in APIS.items()}


class BrokerConnection:
    """One socket. Raises OSError when the connection breaks; after that the object cannot be used.

    Raises `PipelineError` if the broker cannot be trusted or rejects the client, which a retry does not fix.
    """

    def __init__(self, address: Address, connecting: Connecting, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._connecting = connecting
        self._sent = 0
        self._expected: deque[int] = deque()
        """Correlation ids of requests without a response."""
        self._read_early: deque[bytes] = deque()
        """Responses that were read before `receive` asked for them."""
        self._is_let_in = False
        """Whether ApiVersions and, if configured, authentication have succeeded."""
        self._is_known = False
        """Whether the broker has answered another request since. Only that shows that both use the same protocol, because a
        listener answers ApiVersions before authentication."""
        self._versions: dict[int, tuple[int, int]] = {API_VERSIONS_KEY: VERSIONS["ApiVersions"]}
        self._renew_at_s: float | None = None
        self._ends_at_s = 0.0
        self._open = contextlib.ExitStack()
        raw = self._open.enter_context(socket.create_connection(address, min(timeout_s, CONNECT_TIMEOUT_S)))
        try:
            raw.settimeout(timeout_s)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if connecting.tls is None:
                self._socket = raw
            else:
                self._socket = self._open.enter_context(wrapped(raw, connecting.tls, address))
            self._in = self._open.enter_context(self._socket.makefile("rb"))
            self._versions = self._ask_versions()
            if connecting.sasl is not None:
                self._authenticate(connecting.sasl)
            self._is_let_in = True
        except OSError as error:
            self.close()
            raise self._explained(error) from None
        except BaseException:
            self.close()
            raise

    def send(self, request: Any) -> tuple[int, int]:
        """Send a request without waiting. Returns the argument for `receive`."""
        if self._renew_at_s is not None and time.monotonic() >= self._renew_at_s:
            self._renew()
        try:
            return self._send(request)
        except OSError as error:
            raise self._explained(error) from None

    def receive(self, sent: tuple[int, int]) -> Any:
        try:
            frame = self._read_early.popleft() if self._read_early else self._read_frame()
        except OSError as error:
            raise self._explained(error) from None
        self._is_known = self._is_known or sent[0] != API_VERSIONS_KEY
        return self._decoded(sent, frame)

    def call(self, request: Any) -> Any:
        return self.receive(self.send(request))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._open.close()

    def _send(self, request: Any) -> tuple[int, int]:
        name = type(request).__name__.removesuffix("Request")
        key, version = _KEYS[name], self._version(name)
        return self._send_as(key, version, request)

    def _send_as(self, key: int, version: int, request: Any) -> tuple[int, int]:
        self._sent += 1
        self._socket.sendall(request_frame(key, version, self._sent, CLIENT_ID, request))
        self._expected.append(self._sent)
        return key, version

    def _version(self, name: str) -> int:
        """Return the newest version of a request that both sides support. Raises `NotServed`."""
        oldest, newest = VERSIONS[name]
        first, last = self._versions.get(_KEYS[name], (0, -1))
        version = min(newest, last)
        if version < max(oldest, first):
            where = f"the broker at {self._address[0]}:{self._address[1]}"
            offered = f"has versions {first} to {last}" if last >= 0 else "does not have this API"
            raise NotServed(f"{name} {oldest} to {newest} is needed, but {where} {offered}")
        return version

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        """Return the versions that the broker supports. A broker that does not know ottla's newest ApiVersions responds in version
        0 with its own (KIP-511)."""
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        sent = self._send_as(API_VERSIONS_KEY, VERSIONS["ApiVersions"][1], request)
        frame = self._read_frame()
        if frame[4:6] == _UNSUPPORTED:
            known = {a.api_key: a.max_version for a in self._decoded((API_VERSIONS_KEY, 0), frame).api_keys}
            sent = self._send_as(API_VERSIONS_KEY, min(known.get(API_VERSIONS_KEY, 0), sent[1] - 1), request)
            frame = self._read_frame()
        answer = self._decoded(sent, frame)
        if answer.error_code:
            where = f"the broker at {self._address[0]}:{self._address[1]}"
            raise PipelineError(f"{where} refused ApiVersions with {name_of(answer.error_code)}")
        return {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}

    def _decoded(self, sent: tuple[int, int], frame: bytes) -> Any:
        try:
            return decode_response_frame(*sent, frame)[1]
        except DECODE_FAILURES:
            raise ConnectionError(f"a response to {APIS[sent[0]].name} cannot be decoded") from None

    def _read_frame(self) -> bytes:
        limit = MAX_RESPONSE_BYTES if self._is_let_in else MAX_STRANGERS_RESPONSE_BYTES
        size = int.from_bytes(self._read(4), "big")
        if not 4 <= size <= limit:
            raise ConnectionError(f"a response has an invalid size of {size} bytes")
        frame = self._read(size)
        if int.from_bytes(frame[:4], "big") != self._expected.popleft():
            raise ConnectionError("the response belongs to another request")
        return frame

    def _read(self, size: int) -> bytes:
        data = self._in.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data

    def _explained(self, error: OSError) -> Exception:
        """Return an error that explains why the broker does not accept this client, if `diagnosis` finds a reason; else ``error``
        itself."""
        if self._is_known:
            return error
        line = diagnosis(self._address, self._connecting)
        return error if line is None else PipelineError(line)

    def _renew(self) -> None:
        """Authenticate again before the session ends (KIP-368), after reading the pending responses."""
        if time.monotonic() >= self._ends_at_s:
            raise ConnectionError("the session has ended while the connection was idle")
        while self._expected:
            self._read_early.append(self._read_frame())
        assert self._connecting.sasl is not None
        self._authenticate(self._connecting.sasl)

    def _authenticate(self, sasl: Sasl) -> None:
        where = f"the broker at {self._address[0]}:{self._address[1]}"
        began_s = time.monotonic()
        shaken = self._exchange(SaslHandshakeRequest(mechanism=sasl.mechanism))
        if shaken.error_code == Code.ILLEGAL_SASL_STATE:
            raise PipelineError(
                f"{where} does not authenticate clients on this listener, but {PREFIX}{PROTOCOL} is {self._connecting.protocol}:"
                " give"
                f" {self._connecting.protocol.removeprefix('SASL_')}, or another port"
            )
        if shaken.error_code == Code.UNSUPPORTED_SASL_MECHANISM:
            taken = ", ".join(sorted(shaken.mechanisms)) or "no other"
            raise PipelineError(f"{where} does not support {PREFIX}{MECHANISM} {sasl.mechanism}, but {taken}")
        if shaken.error_code:
            raise PipelineError(f"{where} refused SaslHandshake with {name_of(shaken.error_code)}")
        try:
            conversation = conversation_of(sasl)
            said = next(conversation)
            while True:
                answer = self._exchange(SaslAuthenticateRequest(auth_bytes=said))
                if answer.error_code:
                    raise SaslFailure(f"{name_of(answer.error_code)}: {(answer.error_message or '')[:500]}")
                said = conversation.send(answer.auth_bytes)
        except StopIteration:
            pass
        except SaslFailure as failure:
            who = f" of {sasl.username!r}" if sasl.username else ""
            line = " ".join(str(failure).split())
            raise PipelineError(
                f"authentication{who} by {sasl.mechanism} at {self._address[0]}:{self._address[1]} failed: {line}"
            ) from None
        self._renew_at_s = None
        if answer.session_lifetime_ms > 0:
            life_s = answer.session_lifetime_ms / 1_000
            self._renew_at_s, self._ends_at_s = began_s + life_s * RENEW_AT, began_s + life_s

    def _exchange(self, request: Any) -> Any:
        """Send a request and read its response as `call` does, but without checking the session."""
        sent = self._send(request)
        return self._decoded(sent, self._read_frame())


def conversation_of(sasl: Sasl) -> Conversation:
    """Start the SASL exchange. Raises `PipelineError` if no token can be obtained."""
    if sasl.mechanism == PLAIN:
        return plain(sasl.username, sasl.password.text)
    if sasl.mechanism == OAUTHBEARER:
        token = token_of(sasl)
        return oauthbearer(token.value.text, token.extensions)
    return scram(sasl.mechanism, sasl.username, sasl.password.text, secrets.token_hex(16))
