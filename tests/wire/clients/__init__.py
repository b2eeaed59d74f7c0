"""A common interface to four stock clients, so that each test runs with all of them.

Each client library does the work with its own code. An adapter only gives the operations common names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ottla.protocol.topic_partition import TopicPartition

BACKOFF_MAX_MS = 300
"""Upper bound on a client's reconnect backoff, so that tests which restart the broker do not wait longer."""


class Fenced(Exception):
    """The client library reported that another producer fenced this one."""


@dataclass(slots=True, frozen=True)
class Message:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class WireConsumer(Protocol):
    def poll(self, timeout_s: float) -> list[Message]: ...

    def assignment(self) -> set[TopicPartition]: ...

    def positions(self) -> dict[TopicPartition, int]: ...

    def commit(self) -> None: ...

    def committed(self, topic: str, partition: int) -> int | None: ...

    def rewind(self) -> dict[TopicPartition, int]:
        """Seek to the committed offsets of the assigned partitions, or else to the beginning. Returns the new positions."""
        ...

    def close(self) -> None: ...


class WireProducer(Protocol):
    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, key: bytes | None = None, partition: int | None = None) -> None: ...

    def flush(self) -> None: ...

    def send_offsets(self, consumer: WireConsumer, offsets: dict[TopicPartition, int] | None = None) -> None:
        """Send these offsets, or the consumer's positions if unset, with the metadata of the consumer's group."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """A client library, with the configuration that tests use."""

    name: str

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
        idempotent: bool = True,
        request_timeout_ms: int = 10_000,
    ) -> WireProducer: ...

    def consumer(self, bootstrap: str, topics: list[str], *, group: str, committed: bool = True) -> WireConsumer: ...


def group_settings(protocol: str) -> dict[str, object]:
    """Consumer settings for a ``group.protocol``. With the protocol ``consumer`` (KIP-848) the broker sets the intervals."""
    if protocol == "consumer":
        return {"group.protocol": protocol}
    return {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
