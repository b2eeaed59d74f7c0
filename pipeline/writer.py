"""The writing half of a task: batches of one shared transaction, in sequence, several in flight.

A partition belongs to one task of a transaction, so its sequences begin at 0. Whatever went out and was not answered when a
connection broke goes out again with the same sequences: the broker knows what it has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import msgspec
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from pipeline.errors import FENCED, PASSING, Fenced, PipelineError, Refused
from pipeline.transaction import Producer
from pipeline.wire import PAUSE_S, Address, Cluster
from protocol.errors import Code
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MAX_IN_FLIGHT = 4
"""A broker remembers five batches of a producer: as many may be in doubt."""
BATCH_BYTES = 256 << 10
REQUEST_TIMEOUT_MS = 30_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

Header = tuple[str, bytes | None]


class Written(msgspec.Struct, frozen=True):
    """What a task wrote to one partition."""

    topic: str
    partition: int
    records: int
    bytes: int


class _Batch(msgspec.Struct):
    sequence: int
    data: bytes


class PartitionWriter:
    """Collects records into batches and sends them. Raises `Fenced`, `Refused`, `PipelineError`."""

    def __init__(
        self, cluster: Cluster, leader: Address, topic: str, partition: int, producer: Producer, codec: str = "lz4"
    ) -> None:
        self._cluster = cluster
        self._leader = leader
        self._topic = topic
        self._partition = partition
        self._producer = producer
        self._codec = CODECS[codec]
        self._builder = self._new_builder(0)
        self._in_builder = 0
        self._sequence = 0
        self._unanswered: deque[_Batch] = deque()
        self._sent: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def _new_builder(self, sequence: int) -> DefaultRecordBatchBuilder:
        return DefaultRecordBatchBuilder(
            magic=2,
            compression_type=self._codec,
            is_transactional=1,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
            batch_size=BATCH_BYTES,
        )

    def add(self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int) -> None:
        if self._builder.append(self._in_builder, timestamp_ms, key, value, headers) is None:
            self._flush_builder()
            # The first record of a batch always fits; the broker says where one is too large.
            self._builder.append(0, timestamp_ms, key, value, headers)
        self._in_builder += 1

    def _flush_builder(self) -> None:
        if not self._in_builder:
            return
        batch = _Batch(self._sequence, bytes(self._builder.build()))
        self._sequence += self._in_builder
        self._bytes += len(batch.data)
        self._builder, self._in_builder = self._new_builder(self._sequence), 0
        while len(self._unanswered) >= MAX_IN_FLIGHT:
            self._receive()
        self._unanswered.append(batch)
        self._send(batch)

    def finish(self) -> Written:
        """Everything is in the broker's log when this returns."""
        self._flush_builder()
        while self._unanswered:
            self._receive()
        return Written(self._topic, self._partition, self._sequence, self._bytes)

    def close(self) -> None:
        self._cluster.close()

    def _request(self, batch: _Batch) -> ProduceRequest:
        data = [TopicProduceData(self._topic, partition_data=[PartitionProduceData(self._partition, batch.data)])]
        return ProduceRequest(self._producer.transactional_id, -1, REQUEST_TIMEOUT_MS, data)

    def _send(self, batch: _Batch) -> None:
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
        else:
            what = f"writing to {self._topic}-{self._partition}"
            raise Refused(what, code, answer.responses[0].partition_responses[0].error_message)

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


class TaskWriter:
    """All partitions of one task."""

    def __init__(self, bootstrap: str, producer: Producer, codec: str = "lz4") -> None:
        self._bootstrap = bootstrap
        self._cluster = Cluster(bootstrap)
        self._producer = producer
        self._codec = codec
        self._leaders: dict[str, dict[int, Address]] = {}
        self._writers: dict[tuple[str, int], PartitionWriter] = {}

    def partition(self, topic: str, partition: int) -> PartitionWriter:
        found = self._writers.get((topic, partition))
        if found is None:
            if topic not in self._leaders:
                self._leaders[topic] = self._cluster.leaders(topic)
            leader = self._leaders[topic].get(partition)
            if leader is None:
                raise PipelineError(f"topic {topic!r} has no partition {partition}")
            found = PartitionWriter(Cluster(self._bootstrap), leader, topic, partition, self._producer, self._codec)
            self._writers[topic, partition] = found
        return found

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
