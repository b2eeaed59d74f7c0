"""Writes records with an idempotent producer, so that repeating a request after a lost response writes no duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.client.real_time import now_ms
from ottla.client.records.record import NewRecord, encode_batch, encoded_size_bytes
from ottla.client.records.transaction import Transaction
from ottla.protocol.errors import Code
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BATCH_BYTES: Final = 256 << 10
"""A batch of at least this many bytes is sent."""
BATCH_RECORDS: Final = 10_000
ALL_IN_SYNC: Final = -1
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF


@dataclass(slots=True)
class _Waiting:
    records: list[NewRecord] = field(default_factory=list)
    size_bytes: int = 0


class TopicProducer:
    """Collects records into one batch per partition, and sends full batches. `flush` sends the other batches.

    Records without key and partition go to one partition until its batch is sent, and then to the next partition. With a
    ``transaction`` the records belong to it; the caller ends the transaction after `flush`.
    """

    def __init__(
        self, brokers: BrokerConnections, topic: str, now_ms: Callable[[], int] = now_ms, transaction: Transaction | None = None
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._now_ms = now_ms
        self._partitions = brokers.partitions(topic)
        self._next = 0
        self._sequences = dict.fromkeys(self._partitions, 0)
        self._waiting = {index: _Waiting() for index in self._partitions}
        self._transaction = transaction
        self._producer_id, self._epoch = (
            self._init() if transaction is None else (transaction.producer_id, transaction.producer_epoch)
        )
        self.written: dict[int, int] = dict.fromkeys(self._partitions, 0)
        """Number of acknowledged records by partition."""
        self.last_offsets: dict[int, int] = {}

    def _init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        what = "asking for a producer id"

        def attempt() -> tuple[int, int]:
            answer = self._brokers.ask(self._brokers.anyone(), request)
            check(what, answer.error_code)
            return answer.producer_id, answer.producer_epoch

        return self._brokers.until_final(what, attempt)

    def send(self, record: NewRecord) -> None:
        """Add a record to a batch. Raises `KafkaAnswered`, and `ClientError` for a partition that does not exist."""
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
        batch = encode_batch(
            waiting.records,
            self._now_ms(),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[index],
            is_transactional=self._transaction is not None,
        )
        if self._transaction is not None:
            self._transaction.add(self._topic, index)
        request = ProduceRequest(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=ALL_IN_SYNC,
            timeout_ms=round(1_000 * self._brokers.timeout_s),
            topic_data=[
                TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=index, records=batch)]),
            ],
        )
        what = f"writing to {self._topic}-{index}"

        def attempt() -> int:
            answered = self._brokers.ask(self._brokers.leader(self._topic, index), request).responses[0].partition_responses[0]
            # Prefer the message of one record, because the partition's message may quote the messages of many records.
            of_records = [e.batch_index_error_message for e in answered.record_errors if e.batch_index_error_message]
            check(what, answered.error_code, of_records[0] if of_records else answered.error_message)
            return int(answered.base_offset)

        try:
            base_offset = self._brokers.until_final(what, attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))
        except KafkaAnswered as refused:
            if refused.code != Code.DUPLICATE_SEQUENCE_NUMBER:
                raise
            # An earlier attempt has succeeded, but its response was lost.
            base_offset = -1
        count = len(waiting.records)
        self._sequences[index] = (self._sequences[index] + count) & 0x7FFFFFFF
        self.written[index] += count
        if base_offset >= 0:
            self.last_offsets[index] = base_offset + count - 1
        self._next += 1


def produce(brokers: BrokerConnections, topic: str, records: Iterable[NewRecord]) -> dict[int, int]:
    """Write all records and wait until they are acknowledged. Returns the number of records by partition. Raises
    `KafkaAnswered`."""
    producer = TopicProducer(brokers, topic)
    for record in records:
        producer.send(record)
    producer.flush()
    return {index: count for index, count in producer.written.items() if count}


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
