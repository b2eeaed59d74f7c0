"""A connection to one broker: versions, correlation ids, several requests in flight, and authentication.

ApiVersions is the first request. A broker that does not support the client's version of ApiVersions responds in version 0 with the
versions that it supports (KIP-511), and the client repeats the request. Other requests are sent in the newest version that client
and broker support.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.addresses import Address, joined_address
from ottla.client.errors import ClientError, NotKafka, TimedOut, UnsupportedRequest
from ottla.client.real_time import monotonic_s
from ottla.client.wire.transport import Transport
from ottla.protocol.codec import API_VERSIONS_KEY, DECODE_FAILURES, api, decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.remedies import name_of

if TYPE_CHECKING:
    from ottla.client.security.client_config import Connecting

CLIENT_ID: Final = "ottla-client"
SOFTWARE_VERSION: Final = "1"
MAX_ANSWER_BYTES: Final = 128 << 20
"""Maximum size of a response, in bytes. Fetch requests ask for less, but a broker returns a larger batch whole."""
MAX_STRANGERS_ANSWER_BYTES: Final = 1 << 20
"""Maximum size of a response, in bytes, until ApiVersions and authentication have succeeded."""
NEWEST_BY_NAME: Final = {"Produce": 12, "Fetch": 12, "OffsetCommit": 9, "OffsetFetch": 9, "TxnOffsetCommit": 5}
"""Maximum request versions that identify topics by name. Newer versions need topic ids (KIP-516, KIP-848), but users of the client
give names."""
NEWEST_OF_CLIENTS: Final = {"AddPartitionsToTxn": 3}
"""Maximum request versions of clients. Only brokers send newer versions."""
NEWEST_OF_VERSION_1: Final = {"EndTxn": 4, "Produce": 11, "TxnOffsetCommit": 4}
"""Maximum request versions while the cluster's ``transaction.version`` is below 2, as in Kafka's clients
(TransactionManager.isTransactionV2Enabled)."""
OLDEST: Final = {"ListOffsets": 2, "Metadata": 4, "SaslHandshake": 1}
"""Minimum request versions: ListOffsets with isolation levels, Metadata that can avoid creating topics, and SaslHandshake for use
with SaslAuthenticate."""
_KEYS: Final = {entry.name: key for key, entry in APIS.items()}
_TLS_ALERT: Final = 0x15
_UNSUPPORTED: Final = Code.UNSUPPORTED_VERSION.to_bytes(2, "big")


class BrokerConnection:
    """A connection to one broker. After an OSError the connection cannot be used any longer.

    Raises `ClientError` if the server is not Kafka or rejects the client. The client authenticates with the credentials in
    ``connecting``, if any. If a request fails before the first response, the listener is probed to explain the failure. ``oldest``
    has minimum versions by API name.
    """

    def __init__(
        self,
        address: Address,
        transport: Transport,
        client_id: str = CLIENT_ID,
        *,
        connecting: Connecting | None = None,
        oldest: Mapping[str, int] = {},
    ) -> None:
        self.address = address
        self._transport = transport
        self._client_id = client_id
        self._connecting = connecting
        self._oldest = {**OLDEST, **oldest}
        self._sent = 0
        self._expected: deque[int] = deque()
        """Correlation ids of requests without a response."""
        self._read_early: deque[bytes] = deque()
        """Responses that were read before authenticating again. `receive` returns them first."""
        self._limit_bytes = MAX_STRANGERS_ANSWER_BYTES
        self._is_known = False
        """Whether the broker has answered a request other than ApiVersions and authentication. Only such a response shows that
        client and listener use the same security protocol, because listeners answer ApiVersions before authentication."""
        self._renew_at_s: float | None = None
        self._ends_at_s = 0.0
        self.features: dict[str, int] = {}
        """Finalized features of the cluster and their levels; empty if the broker has none."""
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._versions = self._ask_versions()
            if connecting is not None and connecting.sasl is not None:
                self._authenticate(connecting)
        except (OSError, NotKafka) as error:
            raise self._explained(error) from None
        self._limit_bytes = MAX_ANSWER_BYTES

    def call(self, request: Any, at_most: int | None = None) -> Any:
        """Send a request and return the response. Raises `UnsupportedRequest` if client and broker share no version, `NotKafka` for
        an invalid response."""
        return self.receive(self.send(request, at_most))

    def send(self, request: Any, at_most: int | None = None) -> tuple[int, int]:
        """Send a request without waiting for the response. Returns the argument for `receive`. Raises `UnsupportedRequest`."""
        key, version = self._choose(request, at_most)
        if self._renew_at_s is not None and monotonic_s() >= self._renew_at_s:
            self._renew()
        try:
            self._send(key, version, request)
        except OSError as error:
            raise self._explained(error) from None
        return key, version

    def receive(self, sent: tuple[int, int]) -> Any:
        """Return the response to the oldest unanswered request. Raises `NotKafka` for an invalid response."""
        try:
            frame = self._read_early.popleft() if self._read_early else self._read()
        except (OSError, NotKafka) as error:
            raise self._explained(error) from None
        self._is_known = self._is_known or sent[0] != API_VERSIONS_KEY
        return self._decode(sent, frame)

    def version(self, request: Any) -> int:
        """Return the version in which a request would be sent. Raises `UnsupportedRequest`."""
        return self._choose(request, None)[1]

    def close(self) -> None:
        self._transport.close()

    def _choose(self, request: Any, at_most: int | None) -> tuple[int, int]:
        name = type(request).__name__.removesuffix("Request")
        key = _KEYS[name]
        entry = APIS[key]
        oldest, newest = self._versions.get(key, (0, -1))
        wanted = max(entry.min_version, self._oldest.get(name, 0))
        limits = [limit.get(name, newest) for limit in (NEWEST_BY_NAME, NEWEST_OF_CLIENTS)]
        if at_most is not None:
            limits.append(at_most)
        if self.features.get("transaction.version", 0) < 2:
            limits.append(NEWEST_OF_VERSION_1.get(name, newest))
        version = min(entry.max_version, newest, *limits)
        if version < max(oldest, wanted):
            where = joined_address(self.address)
            offered = f"the broker has versions {oldest} to {newest}" if newest >= 0 else "the broker does not have this API"
            needed = f"{name} {wanted}" if name in self._oldest else name
            raise UnsupportedRequest(f"{needed} is not supported at {where}: {offered}")
        return key, version

    def _send(self, key: int, version: int, request: Any) -> None:
        self._sent += 1
        self._transport.send(request_frame(key, version, self._sent, self._client_id, request))
        self._expected.append(self._sent)

    def _read(self) -> bytes:
        """Return the frame of the next response, without its size. Raises `NotKafka`, OSError."""
        head = self._transport.receive(4)
        size = int.from_bytes(head, "big")
        where = f"the server at {joined_address(self.address)}"
        if not 4 <= size <= self._limit_bytes:
            hint = "; it requires TLS: give security.protocol=SSL or SASL_SSL" if head[0] == _TLS_ALERT else ""
            raise NotKafka(f"{where} is not Kafka{hint}")
        frame = self._transport.receive(size)
        if int.from_bytes(frame[:4], "big") != self._expected.popleft():
            raise NotKafka(f"{where} is not Kafka: its response belongs to no request")
        return frame

    def _decode(self, sent: tuple[int, int], frame: bytes) -> Any:
        try:
            return decode_response_frame(*sent, frame)[1]
        except DECODE_FAILURES as error:
            where = joined_address(self.address)
            raise NotKafka(f"the response to {api(sent[0]).name} {sent[1]} from {where} cannot be decoded: {error}") from error

    def _exchange(self, key: int, version: int, request: Any) -> bytes:
        self._send(key, version, request)
        return self._read()

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=SOFTWARE_VERSION)
        version = APIS[API_VERSIONS_KEY].max_version
        where = joined_address(self.address)
        try:
            frame = self._exchange(API_VERSIONS_KEY, version, request)
            if frame[4:6] == _UNSUPPORTED:
                known = {a.api_key: a.max_version for a in self._decode((API_VERSIONS_KEY, 0), frame).api_keys}
                version = min(version - 1, known.get(API_VERSIONS_KEY, 0))
                frame = self._exchange(API_VERSIONS_KEY, version, request)
        except TimeoutError:
            raise TimedOut(
                f"{where} accepts connections but does not answer; check that a healthy Kafka broker listens there"
            ) from None
        except ConnectionResetError:
            if self._connecting is not None:
                raise
            raise NotKafka(
                f"{where} closed the connection at the first request; it is not Kafka, or requires TLS or SASL"
            ) from None
        answer: ApiVersionsResponse = self._decode((API_VERSIONS_KEY, version), frame)
        if answer.error_code:
            raise NotKafka(f"{where} refused ApiVersions with {name_of(answer.error_code)}")
        self.features = {f.name: f.max_version_level for f in answer.finalized_features}
        return {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}

    def _explained(self, error: OSError | ClientError) -> Exception:
        """Return an error that names a wrong security protocol as the cause, if a probe of the listener finds one, else
        ``error``."""
        if self._is_known or self._connecting is None:
            return error
        from ottla.client.security.listener_probe import explained

        return explained(error, self.address, self._connecting)

    def _renew(self) -> None:
        """Authenticate again before the session ends (KIP-368), after reading the pending responses."""
        if monotonic_s() >= self._ends_at_s:
            raise ConnectionError("the session has ended while the connection was idle")
        while self._expected:
            self._read_early.append(self._read())
        assert self._connecting is not None
        self._authenticate(self._connecting)

    def _authenticate(self, connecting: Connecting) -> None:
        from ottla.client.security.authentication import RENEW_AT, authenticate

        def exchange(request: Any) -> Any:
            sent = self._choose(request, None)
            return self._decode(sent, self._exchange(*sent, request))

        began_s = monotonic_s()
        life_s = authenticate(exchange, connecting, self.address)
        self._renew_at_s = began_s + life_s * RENEW_AT if life_s > 0 else None
        self._ends_at_s = began_s + life_s
