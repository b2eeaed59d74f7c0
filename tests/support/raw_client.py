"""A request-level client for tests: any request at any version, over a plain socket."""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.simulation.client import Closed, api_key, newest

T = TypeVar("T")

TIMEOUT_S = 10.0


class RawClient:
    """One connection. ``call(request, version)`` sends a message of protocol.messages and returns the response."""

    def __init__(self, bootstrap: str, client_id: str | None = "raw") -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0

    def send(self, request: Any, version: int) -> tuple[int, int]:
        """Send without waiting; what `receive` needs to read the answer."""
        key = api_key(request)
        self._correlation_id += 1
        self.send_bytes(request_frame(key, version, self._correlation_id, self._client_id, request))
        return key, version

    def receive(self, sent: tuple[int, int]) -> Any:
        _, message = decode_response_frame(*sent, self.receive_frame())
        return message

    def call(self, request: Any, version: int | None = None) -> Any:
        """Raises `Closed`. The newest stable version is the default."""
        return self.receive(self.send(request, newest(request) if version is None else version))

    def send_bytes(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def receive_frame(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed(f"after {len(data)} of {size} bytes")
            data += piece
        return data

    def is_closed(self) -> bool:
        """Whether the broker has closed this connection, without an answer."""
        try:
            self._read(1)
        except Closed:
            return True
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def retry(ask: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Ask again until the answer is good, or for `TIMEOUT_S`; the last answer."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = ask()
        if good(answer) or time.monotonic() > deadline:
            return answer
        time.sleep(0.05)


def wait_for_the_broker(client: RawClient) -> None:
    """Wait until a broker shows what its controller has acknowledged before.

    Apache Kafka's broker takes its controller's records over in their order, and later than the controller answers: when it
    shows a topic that was made last, it shows every change before it.
    """
    create(client, f"the-broker-is-here-{uuid.uuid4().hex[:8]}")


def create(client: RawClient, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic and wait until it has its leaders; ``_`` in a config's name stands for ``.``."""
    wanted = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    answer = client.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=wanted)], timeout_ms=10_000
        )
    )
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    retry(
        lambda: client.call(request, 9).topics[0],
        lambda t: t.error_code == 0 and all(p.error_code == 0 for p in t.partitions),
    )
    # The leader is known before it leads, with Apache Kafka.
    asked = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in range(partitions)
            ],
        )
    ]
    retry(
        lambda: client.call(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=asked), 7).topics[0].partitions,
        lambda answered: all(p.error_code == 0 for p in answered),
    )
