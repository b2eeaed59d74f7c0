"""The plain fallback: one stock transactional producer in the driver, for brokers without transaction version 2.

Every record passes through the driver's process: slower, but any broker since 0.11 takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.mark_log import PARTITION, MarkLog, last_mark
from ottla.spark.marks import Mark, commit_of, group_of
from ottla.spark.stock_client import settings_of
from ottla.spark.transaction import TRANSACTION_TIMEOUT_MS, has_expired
from ottla.spark.wire import ClusterClient
from ottla.spark.writer import Written

T = TypeVar("T")

TIMEOUT_S = 60.0
POLL_EVERY = 1_000
ANY_PARTITION = -1
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}

Row = tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]
"""Topic, key, value, headers, and the partition where the key does not decide it."""


class DriverTransaction:
    """A `exactly_once.SharedTransaction` that nobody shares."""

    def __init__(
        self,
        cluster: ClusterClient,
        transactional_id: str,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        mark_log: MarkLog | None = None,
    ) -> None:
        self._cluster = cluster
        self._mark_log = mark_log
        common = {**settings_of(cluster.connecting), "log_level": 0}
        self.transactional_id = transactional_id
        self._producer = Producer(
            {
                **common,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "compression.type": "lz4",
            }
        )
        self._consumer = Consumer(
            {**common, "group.id": group_of(transactional_id), "isolation.level": "read_committed", "enable.auto.commit": False}
        )

    @property
    def producer(self) -> DriverTransaction:
        return self

    def begin(self) -> Mark | None:
        self._do("taking the transactional id", lambda: self._producer.init_transactions(TIMEOUT_S))
        return last_mark(self._cluster, self.transactional_id, self._mark_log)

    def write(self, rows: Iterable[Row]) -> list[Written]:
        """Everything in one transaction, begun here. Raises `PipelineError`, and RuntimeError where another try may help."""
        self._do("beginning a transaction", self._producer.begin_transaction)
        counts: dict[str, int] = {}
        failed: list[KafkaError] = []

        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failed.append(error)

        for number, (topic, key, value, headers, partition) in enumerate(rows):
            while True:
                try:
                    self._producer.produce(
                        topic, value, key, ANY_PARTITION if partition is None else partition, headers=headers, on_delivery=report
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            counts[topic] = counts.get(topic, 0) + 1
            if number % POLL_EVERY == 0:
                self._producer.poll(0)
        left = self._do("writing", lambda: self._producer.flush(TIMEOUT_S))
        if left or failed:
            raise RuntimeError(
                f"{left + len(failed)} records were not written: {failed[0].str() if failed else 'no answer in time'}"
            )
        return [Written(topic, -1, count, 0) for topic, count in counts.items()]

    def mark(self, mark: Mark, ends: Mapping[tuple[str, int], int]) -> None:
        notes = [
            TopicPartition(topic, index, offset, metadata=metadata)
            for topic, partitions in commit_of(mark, ends).items()
            for index, (offset, metadata) in partitions.items()
        ]
        if self._mark_log is not None:
            # The producer sees at the commit whether it was written.
            key, value = self._mark_log.record(self.transactional_id, mark, ends)
            self._producer.produce(self._mark_log.topic, value, key, PARTITION)
        self._do(
            "marking the batch",
            lambda: self._producer.send_offsets_to_transaction(notes, self._consumer.consumer_group_metadata(), TIMEOUT_S),
        )

    def end(self, *, commit: bool) -> None:
        if commit:
            self._do("committing", lambda: self._producer.commit_transaction(TIMEOUT_S))
        else:
            self._do("aborting", lambda: self._producer.abort_transaction(TIMEOUT_S))

    def has_expired(self) -> bool:
        return has_expired(self._cluster, self.transactional_id)

    def _do(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.code() in _FENCED:
                raise Fenced(self.transactional_id) from None
            if error.fatal():
                raise PipelineError(f"{what}: {error.str()}") from raised
            raise RuntimeError(f"{what}: {error.str()}") from raised

    def close(self) -> None:
        self._consumer.close()
