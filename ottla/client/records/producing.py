"""Writes records with an idempotent producer, so that repeating a request after a lost response writes no duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from ottla.client.admin.offsets import by_leader
from ottla.client.cluster import TRANSACTION, BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered
from ottla.client.real_time import now_ms
from ottla.client.records.record import NewRecord, encode_batch, encoded_size_bytes
from ottla.protocol.errors import Code
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    advance_sequence,
    pack_batch,
    read_header,
)
from ottla.protocol.topic_partition import TopicPartition

BATCH_BYTES: Final = 256 << 10
"""Size, in bytes, at which a batch is sent without waiting for `TopicProducer.flush`."""
BATCH_RECORDS: Final = 10_000
ALL_IN_SYNC: Final = -1
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""The default of transaction.timeout.ms in Kafka's producers."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF


class BatchProducer(Protocol):
    """An object that writes batches: an `IdempotentProducer` or a `transactional_producer.TransactionalProducer`."""

    def write(self, brokers: BrokerConnections, topic: str, batches: Mapping[int, Buffer]) -> dict[int, int]: ...


class IdempotentProducer:
    """Writes batches with a producer id and epoch, and counts each partition's sequence numbers. With a ``transactional_id`` the
    batches are transactional. The constructor requests the producer id, which aborts an open transaction of the transactional id.

    Raises `KafkaAnswered`.
    """

    def __init__(
        self, brokers: BrokerConnections, transactional_id: str | None = None, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = brokers.ask_until_final(
            lambda: brokers.anyone() if transactional_id is None else brokers.coordinator(TRANSACTION, transactional_id),
            request,
            lambda answer: int(answer.error_code),
            "asking for a producer id" if transactional_id is None else f"taking the transactional id {transactional_id!r}",
        )
        self._transactional_id = transactional_id
        self.producer_id: int = answer.producer_id
        self.epoch: int = answer.producer_epoch
        self._sequences: dict[TopicPartition, int] = {}

    def continue_as(self, producer_id: int, epoch: int) -> None:
        """Use another producer id or epoch from now on, whose sequence numbers begin at 0."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    def write(self, brokers: BrokerConnections, topic: str, batches: Mapping[int, Buffer]) -> dict[int, int]:
        """Write one encoded batch to each partition in ``batches``. Returns the base offset by partition; -1 if the response with
        the offset was lost.

        Producer id, epoch, sequence and base offset of each batch are replaced, and the CRC is set. Each batch must have
        consecutive offsets and timestamps of type CreateTime. A retry writes nothing twice, because its sequence numbers are the
        same.
        """
        left = {index: self._owned(topic, index, batch) for index, batch in batches.items()}
        written: dict[int, int] = {}

        def attempt() -> None:
            failed: KafkaAnswered | None = None
            for connection, mine in by_leader(brokers.leaders(topic, left)):
                data = [PartitionProduceData(index=index, records=left[index]) for index in mine]
                request = ProduceRequest(
                    transactional_id=self._transactional_id,
                    acks=ALL_IN_SYNC,
                    timeout_ms=round(1_000 * brokers.timeout_s),
                    topic_data=[TopicProduceData(name=topic, partition_data=data)],
                )
                for answered in brokers.ask(connection, request).responses[0].partition_responses:
                    index = answered.index
                    if answered.error_code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
                        # DUPLICATE_SEQUENCE_NUMBER means that an earlier attempt wrote the batch, and its response was lost.
                        written[index] = -1 if answered.error_code else answered.base_offset
                        count = read_header(left.pop(index)).record_count
                        self._sequences[topic, index] = advance_sequence(self._sequences.get((topic, index), 0), count)
                        continue
                    # Prefer the message of one record, because the partition's message may quote the messages of many records.
                    of_records = [e.batch_index_error_message for e in answered.record_errors if e.batch_index_error_message]
                    message = of_records[0] if of_records else answered.error_message
                    failed = KafkaAnswered(f"writing to {topic}-{index}", answered.error_code, message)
            if failed is not None:
                raise failed

        brokers.until_final(f"writing to topic {topic!r}", attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))
        return written

    def _owned(self, topic: str, index: int, batch: Buffer) -> bytes:
        given = read_header(batch)
        header = msgspec.structs.replace(
            given,
            base_offset=0,
            leader_epoch=-1,
            attributes=given.attributes & COMPRESSION_MASK | (0 if self._transactional_id is None else TRANSACTIONAL_BIT),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get((topic, index), 0),
        )
        return bytes(pack_batch(header, bytes(memoryview(batch)[HEADER_BYTES:])))


@dataclass(slots=True, frozen=True)
class WrittenRecord:
    """The position of a written record. ``offset`` is -1 if the response with the offset was lost."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class _Waiting:
    records: list[NewRecord] = field(default_factory=list)
    size_bytes: int = 0


class TopicProducer:
    """Collects records into one batch per partition, and sends full batches. `flush` sends the other batches.

    ``on_written`` is called with partition, base offset and records after each acknowledged batch. Without a ``producer`` the
    broker assigns a new producer id. With a `TransactionalProducer` the records belong to its transaction, which the caller ends
    after `flush`.

    Records without key and partition go to one partition until any batch is sent, and then to the next partition.
    """

    def __init__(
        self,
        brokers: BrokerConnections,
        topic: str,
        now_ms: Callable[[], int] = now_ms,
        producer: BatchProducer | None = None,
        *,
        on_written: Callable[[int, int, list[NewRecord]], None] = lambda *_: None,
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._now_ms = now_ms
        self._on_written = on_written
        self._partitions = brokers.partitions(topic)
        self._next = 0
        self._waiting = {index: _Waiting() for index in self._partitions}
        self._producer = IdempotentProducer(brokers) if producer is None else producer
        self.written: dict[int, int] = dict.fromkeys(self._partitions, 0)
        """Number of acknowledged records by partition."""
        self.last_offsets: dict[int, int] = {}

    def send(self, record: NewRecord) -> None:
        """Add a record to its partition's batch, and send the batch if it is full. Raises `KafkaAnswered`, and `ClientError` for a
        partition that does not exist."""
        index = self._choose(record)
        waiting = self._waiting[index]
        waiting.records.append(record)
        waiting.size_bytes += encoded_size_bytes(record)
        if waiting.size_bytes >= BATCH_BYTES or len(waiting.records) >= BATCH_RECORDS:
            self._send_batch(index)

    def flush(self) -> None:
        for index, waiting in self._waiting.items():
            if waiting.records:
                self._send_batch(index)

    def _choose(self, record: NewRecord) -> int:
        if record.partition is not None:
            if record.partition not in self._waiting:
                there = len(self._partitions)
                raise ClientError(f"unknown partition {record.partition} of topic {self._topic!r}: it has {there}, counted from 0")
            return record.partition
        if record.key is not None:
            return self._partitions[(murmur2(record.key) & 0x7FFFFFFF) % len(self._partitions)]
        return self._partitions[self._next % len(self._partitions)]

    def _send_batch(self, index: int) -> None:
        waiting, self._waiting[index] = self._waiting[index], _Waiting()
        batch = encode_batch(waiting.records, self._now_ms())
        base_offset = self._producer.write(self._brokers, self._topic, {index: batch})[index]
        count = len(waiting.records)
        self.written[index] += count
        if base_offset >= 0:
            self.last_offsets[index] = base_offset + count - 1
        self._on_written(index, base_offset, waiting.records)
        self._next += 1


def produce(brokers: BrokerConnections, topic: str, records: Iterable[NewRecord]) -> dict[int, int]:
    """Write all records and wait until they are acknowledged. Returns the number of records by partition. Raises
    `KafkaAnswered`."""
    producer = TopicProducer(brokers, topic)
    for record in records:
        producer.send(record)
    producer.flush()
    return {index: count for index, count in producer.written.items() if count}


def produce_each(
    brokers: BrokerConnections,
    topic: str,
    records: Sequence[NewRecord],
    now_ms: Callable[[], int] = now_ms,
    producer: BatchProducer | None = None,
) -> list[WrittenRecord]:
    """Write all records and wait until they are acknowledged. Returns the position of each record, in the order of ``records``.
    Raises `KafkaAnswered`. The other arguments are those of `TopicProducer`."""
    positions: dict[int, WrittenRecord] = {}

    def written(index: int, base_offset: int, batch: list[NewRecord]) -> None:
        for delta, record in enumerate(batch):
            offset = base_offset + delta if base_offset >= 0 else -1
            positions[id(record)] = WrittenRecord(topic=topic, partition=index, offset=offset)

    into = TopicProducer(brokers, topic, now_ms, producer, on_written=written)
    for record in records:
        into.send(record)
    into.flush()
    return [positions[id(record)] for record in records]


def murmur2(key: bytes) -> int:
    """Return the unsigned hash by which Java's producer chooses a partition (org.apache.kafka.common.utils.Utils.murmur2)."""
    whole = len(key) - len(key) % 4
    value = (_SEED ^ len(key)) & _MASK
    for at in range(0, whole, 4):
        mixed = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        mixed = (mixed ^ mixed >> _R) * _M & _MASK
        value = value * _M & _MASK ^ mixed
    if len(key) > whole:
        value = (value ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15
