"""A request-level client for tests. It sends any request at any version over a plain socket."""

from __future__ import annotations

import contextlib
import socket
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.addresses import split_address
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.simulation.client import Closed, api_key, newest
from tests.support import oracle

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Timeout for connecting and for each read, in seconds. It only guards against hanging."""


class RawClient:
    """A client with one connection. ``call(request, version)`` sends a message of protocol.messages and returns the response."""

    def __init__(self, bootstrap: str, client_id: str | None = "raw") -> None:
        self.bootstrap = bootstrap
        self.socket = socket.create_connection(split_address(bootstrap), TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0

    def send(self, request: Any, version: int) -> tuple[int, int]:
        """Send a request without waiting. Returns the API key and version, which `receive` needs."""
        key = api_key(request)
        self._correlation_id += 1
        self.send_bytes(request_frame(key, version, self._correlation_id, self._client_id, request))
        return key, version

    def receive(self, sent: tuple[int, int]) -> Any:
        _, message = decode_response_frame(*sent, self.receive_frame())
        return message

    def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request and return its response; the default is the newest stable version.

        Raises `Closed` if the broker closes the connection.
        """
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
        """Whether the broker has closed this connection without a response. Waits until it is closed or sends a byte."""
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


def create(client: RawClient, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic and wait until its leaders accept requests; ``_`` in a config's name means ``.``."""
    wanted = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    answer = client.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=wanted)], timeout_ms=10_000
        )
    )
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    oracle.leaders_lead(client, topic, partitions)
