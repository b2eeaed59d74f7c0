"""The writing half of a task: batches of one shared transaction, in sequence, several in flight.

A partition belongs to one task of a transaction, so its sequences begin at 0. Whatever went out and was not answered when a
connection broke goes out again with the same sequences: the broker knows what it has.
"""

from __future__ import annotations

import time
from collections import deque

import msgspec
import numpy as np
import pyarrow as pa

from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import COMPRESSIONS
from ottla.spark.connecting import Address, Connecting
from ottla.spark.encoding import Encoded, ProducerIdentity, encode
from ottla.spark.errors import FENCED, PASSING, BrokerRefused, Fenced, PipelineError
from ottla.spark.transaction import Producer
from ottla.spark.wire import PAUSE_S, ClusterClient

MAX_IN_FLIGHT = 4
"""A broker remembers five batches of a producer: as many may be in doubt."""
BATCH_BYTES = 256 << 10
REQUEST_TIMEOUT_MS = 30_000
CODECS = {name: number for number, name in enumerate(COMPRESSIONS)}


class Written(msgspec.Struct, frozen=True):
    """What a task wrote to one partition."""

    topic: str
    partition: int
    records: int
    bytes: int


class PartitionWriter:
    """Sends records in batches. Raises `Fenced`, `BrokerRefused`, `PipelineError`."""

    def __init__(
        self, cluster: ClusterClient, leader: Address, topic: str, partition: int, producer: Producer, codec: str = "lz4"
    ) -> None:
        self._cluster = cluster
        self._leader = leader
        self._topic = topic
        self._partition = partition
        self._producer = producer
        self._identity = ProducerIdentity(producer.producer_id, producer.epoch, CODECS[codec])
        self._sequence = 0
        self._unanswered: deque[Encoded] = deque()
        self._sent: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def write(self, rows: pa.RecordBatch, timestamp_ms: int) -> None:
        """Columns key, value and headers (`encoding.encode`), after what was written before."""
        for batch in encode(rows, self._identity, self._sequence, timestamp_ms, BATCH_BYTES):
            self._sequence += batch.records
            self._bytes += len(batch.data)
            while len(self._unanswered) >= MAX_IN_FLIGHT:
                self._receive()
            self._unanswered.append(batch)
            self._send(batch)

    def finish(self) -> Written:
        """Everything is in the broker's log when this returns."""
        while self._unanswered:
            self._receive()
        return Written(self._topic, self._partition, self._sequence, self._bytes)

    def close(self) -> None:
        self._cluster.close()

    def _request(self, batch: Encoded) -> ProduceRequest:
        data = [TopicProduceData(self._topic, partition_data=[PartitionProduceData(index=self._partition, records=batch.data)])]
        return ProduceRequest(
            transactional_id=self._producer.transactional_id, acks=-1, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=data
        )

    def _send(self, batch: Encoded) -> None:
        try:
            self._sent.append(self._cluster.connection(self._leader).send(self._request(batch)))
        except OSError:
            self._again()

    def _receive(self) -> None:
        """Take the answer to the oldest batch."""
        try:
            answer = self._cluster.connection(self._leader).receive(self._sent.popleft())
        except OSError:
            self._again()
            return
        code = answer.responses[0].partition_responses[0].error_code
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            self._unanswered.popleft()
        elif code in PASSING:
            self._again()
        elif code in FENCED:
            raise Fenced(self._producer.transactional_id)
        elif code == Code.MESSAGE_TOO_LARGE:
            raise PipelineError(too_large(self._topic, self._unanswered[0]))
        else:
            what = f"writing to {self._topic}-{self._partition}"
            raise BrokerRefused(what, code, answer.responses[0].partition_responses[0].error_message)

    def _again(self) -> None:
        """The connection or the leader is gone: find it, and send what is in doubt once more, in order."""
        deadline = time.monotonic() + self._cluster.timeout_s
        while True:
            self._cluster.drop(self._leader)
            self._sent.clear()
            time.sleep(PAUSE_S)
            try:
                self._leader = self._cluster.leaders(self._topic)[self._partition]
                connection = self._cluster.connection(self._leader)
                for batch in self._unanswered:
                    self._sent.append(connection.send(self._request(batch)))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise PipelineError(f"writing to {self._topic}-{self._partition}: no broker answers ({error})") from error
            else:
                return


def too_large(topic: str, batch: Encoded) -> str:
    """A batch of one record is that record, with 100 bytes around it."""
    what = "a record" if batch.records == 1 else f"a batch of {batch.records:,} records"
    return (
        f"{what} of {len(batch.data):,} bytes is more than topic {topic!r} takes: raise the topic's max.message.bytes, or leave"
        " such records out"
    )


class TaskWriter:
    """All partitions of one task."""

    def __init__(self, connecting: Connecting, producer: Producer, codec: str = "lz4") -> None:
        self._connecting = connecting
        self._cluster = ClusterClient(connecting)
        self._producer = producer
        self._codec = codec
        self._leaders: dict[str, dict[int, Address]] = {}
        self._writers: dict[tuple[str, int], PartitionWriter] = {}

    def partition(self, topic: str, partition: int) -> PartitionWriter:
        writer = self._writers.get((topic, partition))
        if writer is None:
            if topic not in self._leaders:
                self._leaders[topic] = self._cluster.leaders(topic)
            leader = self._leaders[topic].get(partition)
            if leader is None:
                raise PipelineError(f"topic {topic!r} has no partition {partition}")
            writer = PartitionWriter(ClusterClient(self._connecting), leader, topic, partition, self._producer, self._codec)
            self._writers[topic, partition] = writer
        return writer

    def write(self, rows: pa.RecordBatch, timestamp_ms: int) -> None:
        """Columns topic, partition, key, value and headers, in any order of partitions; a partition's records keep theirs."""
        if not len(rows):
            return
        topics = rows.column("topic").dictionary_encode()
        partitions = np.asarray(rows.column("partition")).astype(np.int64)
        codes = np.asarray(topics.indices).astype(np.int64) << 32 | partitions
        order = np.argsort(codes, kind="stable")
        cuts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        contents = rows.select(["key", "value", "headers"]).take(pa.array(order))
        for start, end in zip(cuts.tolist(), [*cuts[1:].tolist(), len(rows)], strict=True):
            first = int(order[start])
            writer = self.partition(topics[first].as_py(), int(partitions[first]))
            writer.write(contents.slice(start, end - start), timestamp_ms)

    def finish(self) -> list[Written]:
        """Raises what a writer raises; closes in any case."""
        try:
            return [writer.finish() for writer in self._writers.values()]
        finally:
            self.close()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._cluster.close()
