"""Writes the rows of a task as batches of one shared transaction.

Only one task of a transaction writes to a partition, so the partition's sequences begin at 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from ottla.client.cluster import BrokerConnections
from ottla.client.security.client_config import Connecting
from ottla.protocol.records import COMPRESSIONS
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.cluster.batch_limits import BATCH_BYTES
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.rows.encoding import Encoded, PartitionRows, ProducerIdentity, encode
from ottla.spark.rows.partitioner import check_topic
from ottla.spark.sink.batch_sender import Sender
from ottla.spark.sink.transaction import SharedProducer

_CONTENTS = ("key", "value", "headers")
CODECS = {name: number for number, name in enumerate(COMPRESSIONS)}


class Written(msgspec.Struct, frozen=True):
    """The records that a task has written to one partition."""

    topic: str
    partition: int
    records: int
    bytes: int


class _Total(msgspec.Struct):
    """Totals of a partition. The number of written records is also the next sequence."""

    records: int = 0
    bytes: int = 0


class TaskWriter:
    """Writes to all partitions of one task. Raises `PipelineError` and `MustAbort`."""

    def __init__(
        self,
        connecting: Connecting,
        producer: SharedProducer,
        codec: str = "lz4",
        batch_bytes: Mapping[str, int] = {},
        cluster: BrokerConnections | None = None,
    ) -> None:
        """``batch_bytes`` has the batch sizes of topics that accept only small batches (`batch_limits.small_batches`). With
        ``cluster`` this client is used, and stays open after `finish`; otherwise the writer opens its own connections."""
        self._batch_bytes = dict(batch_bytes)
        self._is_shared = cluster is not None
        self.sender = Sender(cluster or cluster_client(connecting), producer)
        self._identity = ProducerIdentity(producer.producer_id, producer.epoch, CODECS[codec])
        self._totals: dict[TopicPartition, _Total] = {}

    def write(self, rows: pa.RecordBatch, timestamp_ms: int) -> None:
        """Write rows with the columns topic, partition, key, value and perhaps headers. The records of a partition keep the order
        of the rows."""
        if not len(rows):
            return
        topics = rows.column("topic").dictionary_encode()
        _check_places(rows)
        partitions = np.asarray(rows.column("partition")).astype(np.int64)
        codes = np.asarray(topics.indices).astype(np.int64) << 32 | partitions
        order = np.argsort(codes, kind="stable")
        cuts = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist()]
        firsts = [int(order[cut]) for cut in cuts]
        wheres = [(str(topics[first].as_py()), int(partitions[first])) for first in firsts]
        for where in wheres:
            self._totals.setdefault(where, _Total())
        parts = [
            PartitionRows(cut, self._totals[where].records, self._batch_bytes.get(where[0], BATCH_BYTES))
            for cut, where in zip(cuts, wheres, strict=True)
        ]
        contents = rows.select([name for name in _CONTENTS if name in rows.schema.names]).take(pa.array(order))
        encoded = encode(contents, self._identity, parts, timestamp_ms, BATCH_BYTES)
        self.sender.send(self._counted(wheres, encoded))

    def _counted(self, wheres: list[TopicPartition], encoded: Iterator[Encoded]) -> Iterator[tuple[TopicPartition, Encoded]]:
        for batch in encoded:
            where = wheres[batch.part]
            total = self._totals[where]
            total.records += batch.records
            total.bytes += len(batch.data)
            yield where, batch

    def finish(self) -> list[Written]:
        """Wait until all batches are in the brokers' logs. Then close the writer's own connections; after an error close all."""
        try:
            self.sender.settle()
        except BaseException:
            self.close()
            raise
        if not self._is_shared:
            self.close()
        return [Written(*where, total.records, total.bytes) for where, total in self._totals.items()]

    def close(self) -> None:
        """Close all connections. Otherwise, after a failure, a late response would be read as the response to the next request."""
        self.sender.close()


def check_alone(written: Sequence[Written], advice: str) -> None:
    """Raise `PipelineError` if two tasks have written to one partition, because both used the same sequences."""
    seen: set[TopicPartition] = set()
    for part in written:
        where = (part.topic, part.partition)
        if where in seen:
            raise PipelineError(f"two tasks wrote to {part.topic}-{part.partition}, so the batch is aborted: {advice}")
        seen.add(where)


def _check_places(rows: pa.RecordBatch) -> None:
    """Raise `PipelineError` for a row without a partition, which means that the row's topic is unknown."""
    places = rows.column("partition")
    if places.null_count:
        check_topic(rows.column("topic")[places.is_valid().index(False).as_py()].as_py(), ())
