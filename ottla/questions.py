"""The questions that the handle and the plugin ask a cluster, ottla's or another. Each question opens a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient
    from ottla.client.reading import Isolation
    from ottla.client.records import Record
    from ottla.client.transactions import Transaction

T = TypeVar("T")

TIMEOUT_S = 10.0
PAUSE_S = 0.02
"""The pause between two calls of a condition, in seconds."""
NOT_THERE_YET = ("UNKNOWN_TOPIC_OR_PARTITION", "GROUP_ID_NOT_FOUND", "TRANSACTIONAL_ID_NOT_FOUND")
"""Errors that `wait_for` reads as "not yet", by Kafka's names, because this module imports the protocol only when it is used."""


class Questions:
    """Questions about the cluster at the address that ``bootstrap()`` returns. Each raises `ottla.client.ClientError`, one line for
    a person."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap

    def cluster(self) -> KafkaClient:
        """A client for several requests. The caller closes it."""
        from ottla.client import KafkaClient

        return KafkaClient(self._bootstrap(), TIMEOUT_S)

    def create_topic(self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic. By default it has as many partitions as the broker's ``num.partitions`` says."""
        from ottla.client.topics import BROKER_DEFAULT

        with self.cluster() as cluster:
            cluster.create_topic(name, BROKER_DEFAULT if partitions is None else partitions, configs=dict(configs or {}))

    def records(self, topic: str, isolation: Isolation = "committed") -> list[Record]:
        """All records that a topic has now, by partition and offset."""
        with self.cluster() as cluster:
            return cluster.records(topic, isolation=isolation)

    def transaction(self, transactional_id: str) -> Transaction:
        with self.cluster() as cluster:
            return cluster.transaction(transactional_id)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many records a group has not committed yet, by topic and partition."""
        with self.cluster() as cluster:
            return cluster.lag(group)


def wait_for(condition: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """Wait until ``condition`` returns a true value, and return that value. Raises TimeoutError with the last value.

    A condition that fails because a topic, group or transactional id does not exist yet is called again, because a test may wait
    for an application's lag before the application has made its group. Any other error of the condition ends the waiting.
    """
    from ottla.client.errors import KafkaAnswered

    deadline_s = time.monotonic() + timeout_s
    while True:
        absent: KafkaAnswered | None = None
        try:
            value = condition()
        except KafkaAnswered as error:
            if error.code.name not in NOT_THERE_YET:
                raise
            absent = error
        else:
            if value:
                return value
        if time.monotonic() > deadline_s:
            last = f"gave {value!r}" if absent is None else f"said: {absent}"
            raise TimeoutError(f"it has not come in {timeout_s:g} s; the last look {last}") from absent
        time.sleep(PAUSE_S)
