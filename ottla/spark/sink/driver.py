"""Transactions that only the driver writes to: the option ``writer=driver``, for clusters without transaction version 2.

With version 1 a task that still writes after its transaction could leave a transaction open for ever (KIP-890), so tasks do not
write, and every record passes through the driver's process. The producer's epoch is raised before each transaction, so that its
sequences begin at 0 as with version 2, and partitions are added before their first batch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.client.cluster import TRANSACTION
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.cluster.batch_limits import small_batches
from ottla.spark.cluster.client import cluster_client
from ottla.spark.progress.marks import Mark, commit_of
from ottla.spark.progress.progress_topic import PARTITION, ProgressTopic, last_mark
from ottla.spark.rows.partitioner import with_places
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import WANTED_VERSION, SharedProducer, TransactionRequests, has_expired

ROWS_AT_ONCE: Final = 5_000
"""Number of rows that become one Arrow batch."""
TOPICS_SHOWN: Final = 10
"""Maximum number of topics in an error."""
OLDEST: Final = {"InitProducerId": 3}
"""The first version in which a producer can raise its own epoch (KIP-360, Kafka 2.5)."""

Row = tuple[str | None, bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]
"""Topic, key, value, headers and partition. If the partition is None, the key determines the partition."""
_ROW: Final = {
    "topic": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": COLUMNS["headers"],
    "partition": pa.int32(),
}


def _columns(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _ROW.values(), strict=True)]
    return pa.RecordBatch.from_arrays(columns, list(_ROW))


class DriverTransaction:
    """A `BatchTransaction` that only the driver writes to. Raises `PipelineError`, `MustAbort` and `Fenced`."""

    def __init__(self, options: SinkOptions, progress: ProgressTopic | None = None) -> None:
        self._cluster = cluster_client(options.connecting, oldest=OLDEST)
        self._options = options
        self._progress = progress
        self._requests = TransactionRequests(self._cluster, options.transactional_id, options.timeout_ms)
        self.transactional_id = options.transactional_id
        self._producer = SharedProducer(options.transactional_id, -1, -1)
        self._adds_partitions = False
        """Whether partitions and the group are added by separate requests, as with transaction version 1."""
        self._is_new = False
        """Whether no batch was written with the producer's epoch."""
        self._has_begun = False
        """With transaction version 1: whether partitions or the group were added to the open transaction."""
        self._writer: TaskWriter | None = None
        self._added: set[TopicPartition] = set()
        self._topics: set[str] = set()
        """The topics whose batch limits were read."""
        self._batch_bytes: dict[str, int] = {}
        """Maximum batch sizes, in bytes, of topics that accept only small batches."""

    @property
    def producer(self) -> DriverTransaction:
        return self

    @property
    def epoch(self) -> int:
        return self._producer.epoch

    def begin(self) -> Mark | None:
        """Fence earlier producers, end their open transaction, and read the last progress record."""
        self._adds_partitions = self._requests.version() < WANTED_VERSION
        self._producer = self._requests.initialize(SharedProducer(self.transactional_id, -1, -1))
        self._is_new = True
        self._has_begun = False
        self._topics.clear()
        self._batch_bytes.clear()
        return last_mark(self._cluster, self.transactional_id, self._progress)

    def write(self, rows: Iterable[Row], partitions: Mapping[str, int]) -> list[Written]:
        """Write all rows in a new transaction. ``partitions`` has the partition count by topic."""
        if unknown := partitions.keys() - self._topics:
            self._batch_bytes |= small_batches(self._cluster, sorted(unknown))
            self._topics |= unknown
        writer = self._begun()
        now_ms = time.time_ns() // 1_000_000
        left, count = iter(rows), 0
        while some := list(itertools.islice(left, ROWS_AT_ONCE)):
            batch = with_places(_columns(some), partitions, count)
            self._add(set(zip(batch.column("topic").to_pylist(), batch.column("partition").to_pylist(), strict=True)))
            writer.write(batch, now_ms)
            count += len(some)
        return writer.finish()

    def _begun(self) -> TaskWriter:
        """Return a writer for the next transaction. Its sequences begin at 0."""
        if not self._is_new:
            self._producer = self._requests.initialize(self._producer)
        self._is_new = self._has_begun = False
        self._added.clear()
        options = self._options
        self._writer = TaskWriter(options.connecting, self._producer, options.compression, self._batch_bytes, self._cluster)
        return self._writer

    def _add(self, partitions: set[TopicPartition]) -> None:
        new = partitions - self._added
        if not new or not self._adds_partitions:
            return
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(new):
            by_topic.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()],
        )
        what = f"adding partitions of {', '.join(itertools.islice(by_topic, TOPICS_SHOWN))} to the transaction"
        self._requests.ask(TRANSACTION, request, what, _code_of_adding)
        self._has_begun = True
        self._added |= new

    def mark(self, mark: Mark, ends: Mapping[TopicPartition, int]) -> None:
        """Write the batch's progress in the transaction, as `SharedTransaction.mark`."""
        if ends:
            if self._adds_partitions:
                request = AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self._producer.producer_id,
                    producer_epoch=self._producer.epoch,
                    group_id=self._requests.group,
                )
                self._requests.ask(TRANSACTION, request, "adding the group to the transaction")
                self._has_begun = True
            self._requests.commit_offsets(self._producer, commit_of(mark, ends))
        log, writer = self._progress, self._writer
        if log is not None and writer is not None:
            key, value = log.record(mark, ends)
            self._add({(log.topic, PARTITION)})
            writer.write(_columns([(log.topic, key, value, [], PARTITION)]), time.time_ns() // 1_000_000)
            writer.finish()

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction. The next transaction has the next epoch."""
        if not self._adds_partitions:
            self._producer = self._requests.end(self._producer, commit=commit)
            self._is_new = True
        elif self._has_begun:
            # The coordinator rejects the end of a transaction of version 1 to which nothing was added, also after the transaction
            # of an earlier batch. If it is unknown whether something was added, raising the epoch aborts the transaction.
            self._requests.end(self._producer, commit=commit)
            self._has_begun = False

    def has_expired(self) -> bool:
        return has_expired(self._cluster, self.transactional_id)

    def close(self) -> None:
        """Close all connections. An open transaction is aborted by the next owner of the id."""
        self._cluster.close()


def _code_of_adding(answer: Any) -> int:
    """Return the error code of the partition that the broker refused. The request's other partitions get
    OPERATION_NOT_ATTEMPTED."""
    results = [result for topic in answer.results_by_topic_v3_and_below for result in topic.results_by_partition]
    codes = [int(result.partition_error_code) for result in results if result.partition_error_code]
    return next((code for code in codes if code != Code.OPERATION_NOT_ATTEMPTED), codes[0] if codes else 0)
