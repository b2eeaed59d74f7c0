"""A cluster without sockets. Its brokers return scripted responses and record all requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.addresses import Address
from ottla.client.cluster import BrokerConnections
from ottla.protocol.codec import API_VERSIONS_KEY, api, decode_body, read_client_id, response_parts
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BOOTSTRAP: Address = ("kafka", 9092)
Answer = Any
"""A response, an exception that is raised instead of a response, or the bytes of a response frame without its size field."""


@dataclass
class ScriptedBroker:
    """A broker with scripted responses.

    ``answers`` maps an API name to a list of responses or to a function of the request. The responses of a list are returned
    in order, and the last response is repeated.
    """

    answers: dict[str, list[Answer] | Callable[[Any], Answer]] = field(default_factory=dict)
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Version ranges by API name, for APIs whose versions differ from ottla's."""
    asked: list[tuple[str, int, Any]] = field(default_factory=list)
    connections: int = 0
    refuses: OSError | None = None

    def api_versions(self, version: int) -> tuple[ApiVersionsResponse, int]:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, entry in APIS.items()
            for low, high in [self.versions.get(entry.name, (entry.min_version, entry.max_version))]
        ]
        newest = next(k.max_version for k in keys if k.api_key == API_VERSIONS_KEY)
        if version > newest:
            # KIP-511: the response has version 0, the error UNSUPPORTED_VERSION and the version range of ApiVersions only.
            ours = [k for k in keys if k.api_key == API_VERSIONS_KEY]
            return ApiVersionsResponse(error_code=35, api_keys=ours), 0
        return ApiVersionsResponse(api_keys=keys), version

    def names(self) -> list[str]:
        return [name for name, _, _ in self.asked]

    def answer(self, frame: bytes) -> bytes:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        correlation_id, codec = int.from_bytes(frame[4:8], "big"), api(key)
        _, at = read_client_id(frame, flexible=version >= codec.flexible_from)
        request = decode_body(codec.decode_request, frame, at, version)
        self.asked.append((codec.name, version, request))
        given: Answer = self.answers.get(codec.name)
        if callable(given):
            given = given(request)
        elif given:
            given = given.pop(0) if len(given) > 1 else given[0]
        elif key == API_VERSIONS_KEY:
            given, version = self.api_versions(version)
        if isinstance(given, BaseException):
            raise given
        if isinstance(given, bytes):
            return given
        assert given is not None, f"no response is scripted for {codec.name}"
        return b"".join(response_parts(codec, version, correlation_id, given))


class ScriptedTransport:
    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._bytes = b""
        self.is_closed = False

    def send(self, data: bytes) -> None:
        assert not self.is_closed
        self._bytes += self._broker.answer(data[4:])

    def receive(self, size: int) -> bytes:
        if len(self._bytes) < size:
            raise TimeoutError
        data, self._bytes = self._bytes[:size], self._bytes[size:]
        return data

    def close(self) -> None:
        self.is_closed = True


class ScriptedCluster:
    """Scripted brokers by host name, with a clock that advances only when the client pauses."""

    def __init__(self, **brokers: ScriptedBroker) -> None:
        self.by_host = brokers
        self.now_s = 0.0
        self.pauses: list[float] = []

    def connect(self, address: Address, timeout_s: float) -> ScriptedTransport:
        broker = self.by_host.get(address[0])
        if broker is None:
            raise ConnectionRefusedError(111, "Connection refused")
        if broker.refuses is not None:
            raise broker.refuses
        broker.connections += 1
        return ScriptedTransport(broker)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    def brokers(self, timeout_s: float = 10.0, bootstrap: str = "kafka:9092") -> BrokerConnections:
        return BrokerConnections(bootstrap, timeout_s=timeout_s, connect=self.connect, clock=lambda: self.now_s, pause=self.pause)


def metadata(*, nodes: dict[int, str], leaders: dict[str, list[int]], missing: tuple[str, ...] = ()) -> MetadataResponse:
    """Return a Metadata response. ``leaders`` has the leader id of each partition by topic, -1 for a leaderless partition."""
    topics = [
        MetadataResponseTopic(
            name=name,
            partitions=[
                MetadataResponsePartition(partition_index=index, leader_id=leader, error_code=0 if leader >= 0 else 5)
                for index, leader in enumerate(of_topic)
            ],
        )
        for name, of_topic in leaders.items()
    ]
    topics += [MetadataResponseTopic(name=name, error_code=3) for name in missing]
    brokers = [MetadataResponseBroker(node_id=node_id, host=host, port=9092) for node_id, host in nodes.items()]
    return MetadataResponse(brokers=brokers, controller_id=min(nodes, default=-1), topics=topics)
