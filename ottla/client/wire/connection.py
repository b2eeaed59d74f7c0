"""A connection to one broker: one request at a time, in the newest version that both sides support.

ApiVersions is the first request. A broker that does not support its newest version responds in version 0 with the supported ones
(KIP-511), and gets a second request.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from ottla.addresses import Address, joined_address
from ottla.client.errors import NotKafka, TimedOut, UnsupportedRequest
from ottla.protocol.codec import API_VERSIONS_KEY, api, decode_response_frame, request_frame
from ottla.protocol.errors import Code, DecodeError
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLIENT_ID: Final = "ottla-client"
SOFTWARE_VERSION: Final = "1"
MAX_ANSWER_BYTES: Final = 128 << 20
"""Largest response in bytes. Fetch requests less, but a single batch may be larger."""
NEWEST_BY_NAME: Final = {"Produce": 12, "Fetch": 12, "OffsetCommit": 9, "OffsetFetch": 9}
"""The last versions that identify topics by name instead of id (KIP-516, KIP-848). People use names, and these versions suffice."""
_KEYS: Final = {entry.name: key for key, entry in APIS.items()}
_TLS_ALERT: Final = 0x15
_UNSUPPORTED: Final = Code.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Transport(Protocol):
    """Sends and receives bytes. Methods raise OSError when the connection breaks, TimeoutError after the timeout."""

    def send(self, data: bytes) -> None: ...

    def receive(self, size: int) -> bytes:
        """Read exactly ``size`` bytes."""
        ...

    def close(self) -> None: ...


Connect = Callable[[Address, float], Transport]
"""Opens a transport to an address. The second argument is the timeout of each read, in seconds. Raises OSError."""


class SocketTransport:
    """A plain TCP connection."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except UnicodeError:
            raise OSError(f"{address[0]!r} is not a host name") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, size: int) -> bytes:
        data = self._in.read(size)
        if len(data) < size:
            raise ConnectionResetError("the broker closed the connection")
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._in.close()
            self._socket.close()


class BrokerConnection:
    """A connection to one broker. Raises OSError when the transport breaks, and cannot be used afterwards."""

    def __init__(self, address: Address, transport: Transport, client_id: str = CLIENT_ID) -> None:
        self.address = address
        self._transport = transport
        self._client_id = client_id
        self._sent = 0
        self.features: dict[str, int] = {}
        """Finalized features of the cluster and their levels; empty if the broker has none."""
        self._versions = self._ask_versions()

    def call(self, request: Any, at_most: int | None = None) -> Any:
        """Send a request and return the response. Raises `UnsupportedRequest` if the sides share no version, `NotKafka` for an
        invalid response."""
        key, version = self._choose(request, at_most)
        return self._decode(key, version, self._exchange(key, version, request))

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
        version = min(entry.max_version, newest, NEWEST_BY_NAME.get(name, newest), newest if at_most is None else at_most)
        if version < max(oldest, entry.min_version):
            where = joined_address(self.address)
            offered = f"the broker has versions {oldest} to {newest}" if newest >= 0 else "the broker does not have this API"
            raise UnsupportedRequest(f"{name} is not supported at {where}: {offered}")
        return key, version

    def _exchange(self, key: int, version: int, request: Any) -> bytes:
        """Return the frame of the response, without its size. Raises `NotKafka`, OSError."""
        self._sent += 1
        self._transport.send(request_frame(key, version, self._sent, self._client_id, request))
        head = self._transport.receive(4)
        size = int.from_bytes(head, "big")
        if not 4 <= size <= MAX_ANSWER_BYTES:
            hint = "; it requires TLS, which this client does not support" if head[0] == _TLS_ALERT else ""
            raise NotKafka(f"the server at {joined_address(self.address)} is not Kafka{hint}")
        frame = self._transport.receive(size)
        if int.from_bytes(frame[:4], "big") != self._sent:
            raise NotKafka(f"the server at {joined_address(self.address)} is not Kafka: its response belongs to no request")
        return frame

    def _decode(self, key: int, version: int, frame: bytes) -> Any:
        try:
            return decode_response_frame(key, version, frame)[1]
        except DecodeError as error:
            where = joined_address(self.address)
            raise NotKafka(f"the response to {api(key).name} {version} from {where} cannot be decoded: {error}") from error

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=SOFTWARE_VERSION)
        version = APIS[API_VERSIONS_KEY].max_version
        try:
            frame = self._exchange(API_VERSIONS_KEY, version, request)
            if frame[4:6] == _UNSUPPORTED:
                known = {a.api_key: a.max_version for a in self._decode(API_VERSIONS_KEY, 0, frame).api_keys}
                version = min(version - 1, known.get(API_VERSIONS_KEY, 0))
                frame = self._exchange(API_VERSIONS_KEY, version, request)
        except TimeoutError:
            where = joined_address(self.address)
            raise TimedOut(
                f"{where} accepts connections but does not answer; check that a healthy Kafka broker listens there"
            ) from None
        except ConnectionResetError:
            where = joined_address(self.address)
            raise NotKafka(
                f"{where} closed the connection at the first request; it is not Kafka, or requires TLS or SASL"
            ) from None
        answer: ApiVersionsResponse = self._decode(API_VERSIONS_KEY, version, frame)
        if answer.error_code:
            raise NotKafka(f"{joined_address(self.address)} refused ApiVersions with error {answer.error_code}")
        self.features = {f.name: f.max_version_level for f in answer.finalized_features}
        return {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}
