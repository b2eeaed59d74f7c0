"""The fallback for brokers without transaction version 2: one stock transactional producer in the driver.

Every record passes through the driver's process, which is slower, but works with every broker since 0.11 (with authentication since
1.0).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.client.cluster import BrokerConnections
from ottla.spark.cluster.batch_limits import BATCH_BYTES, small_batches
from ottla.spark.cluster.stock_client import settings_of
from ottla.spark.cluster.topics import partition_counts
from ottla.spark.errors import Fenced, MustAbort, PipelineError
from ottla.spark.progress.marks import Mark, commit_of, group_of
from ottla.spark.progress.progress_topic import PARTITION, ProgressTopic, last_mark
from ottla.spark.rows.partitioner import check_place
from ottla.spark.sink.batch_sender import too_large
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_writer import Written
from ottla.spark.sink.transaction import has_expired

T = TypeVar("T")

TIMEOUT_S: Final = 60.0
POLL_EVERY: Final = 1_000
ANY_PARTITION: Final = -1
MAX_RECORD_BYTES: Final = 1_000_000_000
"""The largest value of librdkafka's message.max.bytes, so that only the broker enforces the limit of a topic."""
_FENCED: Final = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}

Row = tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]
"""Topic, key, value, headers and partition. If the partition is None, the key determines it."""


class _Count(msgspec.Struct):
    records: int = 0
    bytes: int = 0


class DriverTransaction:
    """A `BatchTransaction` that only the driver writes to. Each `begin` creates a producer, because a producer of librdkafka can
    initialize its transactional id only once."""

    def __init__(self, cluster: BrokerConnections, options: SinkOptions, progress: ProgressTopic | None = None) -> None:
        self._cluster = cluster
        self._options = options
        self._progress = progress
        self.transactional_id = options.transactional_id
        self._stock: Producer | None = None
        self._group: Any = None

    @property
    def producer(self) -> DriverTransaction:
        return self

    def begin(self) -> Mark | None:
        self._close_producer()
        counts = partition_counts(self._cluster, self._options.topics)
        largest = min([BATCH_BYTES, *small_batches(self._cluster, list(counts)).values()])
        self._stock = Producer({**_settings(self._options), "batch.size": largest})
        self._group = self._group or _group_metadata(self._options)
        self._do("taking the transactional id", lambda stock: stock.init_transactions(TIMEOUT_S))
        return last_mark(self._cluster, self.transactional_id, self._progress)

    def write(self, rows: Iterable[Row], partitions: Mapping[str, int]) -> list[Written]:
        """Begin a transaction and write all rows in it. ``partitions`` has the partition count by topic.

        Raises `PipelineError`, and `MustAbort` if another attempt may succeed.
        """
        self._do("beginning a transaction", lambda stock: stock.begin_transaction())
        counts: dict[str, _Count] = {}
        failed: list[Exception] = []

        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None and not failed:
                failed.append(self._failure(error, message))

        for number, row in enumerate(rows):
            topic, key, value, headers, partition = row
            check_place(topic, partition, partitions)
            self._produce(row, report)
            count = counts.setdefault(topic, _Count())
            count.records += 1
            count.bytes += len(key or b"") + len(value or b"") + sum(len(name) + len(held or b"") for name, held in headers)
            if number % POLL_EVERY == 0:
                self._do("writing", lambda stock: stock.poll(0))
            if failed:
                raise failed[0]
        left = self._do("writing", lambda stock: stock.flush(TIMEOUT_S))
        if failed:
            raise failed[0]
        if left:
            raise MustAbort(f"{left} records were not written within {TIMEOUT_S:g} s")
        return [Written(topic, -1, count.records, count.bytes) for topic, count in counts.items()]

    def _produce(self, row: Row, report: Callable[[KafkaError | None, Any], None]) -> None:
        topic, key, value, headers, partition = row
        where = ANY_PARTITION if partition is None else partition
        while True:
            try:
                self._do("writing", lambda stock: stock.produce(topic, value, key, where, headers=headers, on_delivery=report))
            except BufferError:
                self._do("writing", lambda stock: stock.poll(0.1))
            else:
                return

    def mark(self, mark: Mark, ends: Mapping[tuple[str, int], int]) -> None:
        log = self._progress
        if log is not None:
            # If the record cannot be written, the commit fails.
            key, value = log.record(mark, ends)
            self._do("marking the batch", lambda stock: stock.produce(log.topic, value, key, PARTITION))
        if ends:
            notes = [
                TopicPartition(topic, index, offset, metadata=metadata)
                for topic, partitions in commit_of(mark, ends).items()
                for index, (offset, metadata) in partitions.items()
            ]
            self._do("marking the batch", lambda stock: stock.send_offsets_to_transaction(notes, self._group, TIMEOUT_S))

    def end(self, *, commit: bool) -> None:
        if commit:
            self._do("committing", lambda stock: stock.commit_transaction(TIMEOUT_S))
        else:
            self._do("aborting", lambda stock: stock.abort_transaction(TIMEOUT_S))

    def has_expired(self) -> bool:
        return has_expired(self._cluster, self.transactional_id)

    def close(self) -> None:
        """Release the producer's threads and all connections. An open transaction is aborted by the next owner of the id."""
        self._close_producer()
        self._cluster.close()

    def _close_producer(self) -> None:
        if self._stock is not None:
            # Drop the queued records, because their transaction is never committed.
            with contextlib.suppress(KafkaException):
                self._stock.purge()
            # Dropping the last reference ends the producer and its threads. `close`, which not every version has, would also abort
            # the open transaction, and warn if the producer is fenced.
            self._stock = None

    def _do(self, what: str, call: Callable[[Producer], T]) -> T:
        assert self._stock is not None
        try:
            return call(self._stock)
        except KafkaException as raised:
            raise self._failure(raised.args[0], None, what) from None

    def _failure(self, error: KafkaError, message: Any, what: str = "writing") -> Exception:
        """Convert an error of librdkafka to an error of `ottla.spark.errors`."""
        if error.code() in _FENCED:
            return Fenced(self.transactional_id)
        if message is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return PipelineError(too_large(message.topic(), 1, len(message.value() or b"") + len(message.key() or b"")))
        if message is not None:
            what = f"writing to {message.topic()}"
        text = " ".join(f"{what}: {error.str()}".split())
        return PipelineError(text) if error.fatal() else MustAbort(text)


def _settings(options: SinkOptions) -> dict[str, Any]:
    return {
        **settings_of(options.connecting),
        "log_level": 0,
        "transactional.id": options.transactional_id,
        "transaction.timeout.ms": options.timeout_ms,
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        "compression.type": options.compression,
        "allow.auto.create.topics": False,
        "message.max.bytes": MAX_RECORD_BYTES,
    }


def _group_metadata(options: SinkOptions) -> Any:
    """Return the group's metadata, which only a consumer can create."""
    settings = {**settings_of(options.connecting), "log_level": 0, "group.id": group_of(options.transactional_id)}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
