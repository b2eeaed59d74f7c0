"""Writes the rows of a task as batches of one shared transaction. `Sequences` knows whether other tasks write to the same
partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
from ottla.spark.rows.encoding import Encoded, PartitionRows, ProducerIdentity, Unsequenced, encode
from ottla.spark.rows.partitioner import check_topic
from ottla.spark.sink.batch_sender import Sender
from ottla.spark.sink.sequences import OwnSequences, Sequences
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
    records: int = 0
    bytes: int = 0


class TaskWriter:
    """Writes the rows of one task, to any number of partitions. Raises `PipelineError` and `MustAbort`."""

    def __init__(
        self,
        connecting: Connecting,
        producer: SharedProducer,
        codec: str = "lz4",
        batch_bytes: Mapping[str, int] = {},
        cluster: BrokerConnections | None = None,
        sequences: Sequences | None = None,
    ) -> None:
        """``batch_bytes`` has the batch sizes of topics that accept only small batches (`batch_limits.small_batches`). With
        ``cluster`` this client is used, and stays open after `finish`; otherwise the writer opens its own connections. Without
        ``sequences`` no other task may write to the writer's partitions."""
        self._batch_bytes = dict(batch_bytes)
        self._is_shared = cluster is not None
        self.sender = Sender(cluster or cluster_client(connecting), producer)
        self._identity = ProducerIdentity(producer.producer_id, producer.epoch, CODECS[codec])
        self._sequences = sequences or OwnSequences()
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
        parts = [PartitionRows(cut, self._batch_bytes.get(where[0], BATCH_BYTES)) for cut, where in zip(cuts, wheres, strict=True)]
        contents = rows.select([name for name in _CONTENTS if name in rows.schema.names]).take(pa.array(order))
        encoded = encode(contents, self._identity, parts, timestamp_ms, BATCH_BYTES)
        if self._sequences.is_shared:
            self._send_in_turns(wheres, encoded)
        else:
            self._send(wheres, encoded)

    def _send(self, wheres: list[TopicPartition], batches: Iterable[Unsequenced]) -> None:
        """Send batches to partitions that no other task writes to."""
        sequences = self._sequences.take(wheres)
        self.sender.send(self._sequenced(sequences, ((wheres[batch.part], batch) for batch in batches)))
        self._sequences.give_back(sequences)

    def _send_in_turns(self, wheres: list[TopicPartition], batches: Iterable[Unsequenced]) -> None:
        """Send the batches of each partition when no other task sends to it."""
        # Compress all batches before taking a partition, because other tasks wait for a taken partition.
        waiting: dict[TopicPartition, list[Unsequenced]] = {}
        for batch in batches:
            waiting.setdefault(wheres[batch.part], []).append(batch)
        while waiting:
            sequences = self._sequences.take(waiting)
            mine = [(where, batch) for where in sequences for batch in waiting.pop(where)]
            self.sender.send(self._sequenced(sequences, mine))
            self.sender.settle()
            self._sequences.give_back(sequences)

    def _sequenced(
        self, sequences: dict[TopicPartition, int], batches: Iterable[tuple[TopicPartition, Unsequenced]]
    ) -> Iterator[tuple[TopicPartition, Encoded]]:
        """Give each batch its sequence, and add its records to ``sequences`` and to the totals."""
        for where, batch in batches:
            encoded = batch.at(sequences[where])
            sequences[where] += batch.records
            total = self._totals.setdefault(where, _Total())
            total.records += batch.records
            total.bytes += len(encoded.data)
            yield where, encoded

    def finish(self) -> list[Written]:
        """Wait until all batches are in the brokers' logs. Then close the writer's own connections, or, after an error, all
        connections."""
        try:
            self.sender.settle()
        except BaseException:
            self.close()
            raise
        if not self._is_shared:
            self.close()
        return [Written(*where, total.records, total.bytes) for where, total in self._totals.items()]

    def close(self) -> None:
        """Close all connections. After a failure, a late response would otherwise be read as the response to the next request."""
        try:
            self.sender.close()
        finally:
            self._sequences.close()


def added_up(written: Iterable[Written]) -> list[Written]:
    """Return the sum of what several tasks have written to each partition."""
    sums: dict[TopicPartition, Written] = {}
    for part in written:
        where = (part.topic, part.partition)
        before = sums.get(where, Written(*where, 0, 0))
        sums[where] = Written(*where, before.records + part.records, before.bytes + part.bytes)
    return list(sums.values())


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
