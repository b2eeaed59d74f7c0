"""Writes batches in transactions, with the offsets of a group as progress (KIP-98, KIP-447).

The caller's order: `TransactionalWriter.take`, then for each transaction `write` and `commit_offsets` in any number and order, and
`end`. Both generations of the protocol are supported: with ``transaction.version`` 2 (KIP-890) brokers add partitions and groups to
the transaction, and before it the client does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ottla.client.admin.offsets import by_leader
from ottla.client.admin.transactions import EPOCH_BUMP_LEVEL, FENCED_ALREADY, TRANSACTION_VERSION
from ottla.client.cluster import GROUP, TRANSACTION, BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.client.records.producing import ALL_IN_SYNC
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    advance_sequence,
    pack_batch,
    read_header,
)
from ottla.protocol.topic_partition import TopicPartition

TRANSACTION_TIMEOUT_MS: Final = 120_000
"""Time, in ms, after which the coordinator aborts an open transaction. A transaction of a copy has at most 16 MiB per broker."""


class Fenced(ClientError):
    """Another process has taken the transactional id, or the transaction has timed out."""


class TransactionalWriter:
    """The producer of a transactional id. Methods raise `Fenced`, and `KafkaAnswered` for other errors.

    After an error the transaction is undecided: `end` may abort it, and the next `take` does.
    """

    def __init__(self, brokers: BrokerConnections, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> None:
        self._brokers = brokers
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._producer_id, self._epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._sequences: dict[TopicPartition, int] = {}
        self._is_implicit = False
        """Whether brokers add partitions and groups to the transaction."""
        self._added: set[TopicPartition | str] = set()
        """Partitions and groups in the transaction that this client has added."""

    def take(self) -> None:
        """Take the transactional id: fence its other producers, and wait until their open transaction is complete."""
        self._is_implicit = self._brokers.features().get(TRANSACTION_VERSION, 0) >= EPOCH_BUMP_LEVEL
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
        answer = self._ask_coordinator(TRANSACTION, self.transactional_id, request, "taking", lambda a: a.error_code)
        self._begin(answer.producer_id, answer.producer_epoch)

    def _begin(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            self._sequences.clear()
        self._added.clear()

    def write(self, topic: str, batches: Mapping[int, Sequence[Buffer]]) -> None:
        """Write whole batches to partitions. Their producer, sequence and offsets are replaced, and their CRC is set.

        The batches need consecutive offsets and timestamps by the producer. A Produce request has one batch per partition.
        """
        if not self._is_implicit:
            self._add_partitions(topic, [index for index in batches if (topic, index) not in self._added])
        for at in range(max(map(len, batches.values()), default=0)):
            wave = {
                index: self._owned(topic, index, of_partition[at])
                for index, of_partition in batches.items()
                if at < len(of_partition)
            }
            self._send(topic, wave)

    def _owned(self, topic: str, index: int, batch: Buffer) -> bytes:
        given = read_header(batch)
        sequence = self._sequences.get((topic, index), 0)
        header = msgspec.structs.replace(
            given,
            base_offset=0,
            leader_epoch=-1,
            attributes=given.attributes & COMPRESSION_MASK | TRANSACTIONAL_BIT,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        self._sequences[topic, index] = advance_sequence(sequence, given.record_count)
        return bytes(pack_batch(header, bytes(memoryview(batch)[HEADER_BYTES:])))

    def _send(self, topic: str, wave: dict[int, bytes]) -> None:
        """Send one batch per partition. A repeated request writes nothing twice, because the sequence numbers stay the same."""
        left = dict(wave)

        def attempt() -> None:
            failed: KafkaAnswered | None = None
            for connection, mine in by_leader(self._brokers.leaders(topic, left)):
                data = [PartitionProduceData(index=index, records=left[index]) for index in mine]
                request = ProduceRequest(
                    transactional_id=self.transactional_id,
                    acks=ALL_IN_SYNC,
                    timeout_ms=round(1_000 * self._brokers.timeout_s),
                    topic_data=[TopicProduceData(name=topic, partition_data=data)],
                )
                for answered in self._brokers.ask(connection, request).responses[0].partition_responses:
                    if answered.error_code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
                        del left[answered.index]
                        continue
                    messages = [e.batch_index_error_message for e in answered.record_errors if e.batch_index_error_message]
                    what = f"writing to {topic}-{answered.index}"
                    failed = KafkaAnswered(what, answered.error_code, messages[0] if messages else answered.error_message)
            if failed is not None:
                raise failed

        self._until_final(f"writing to topic {topic!r}", attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))

    def _add_partitions(self, topic: str, indexes: list[int]) -> None:
        if not indexes:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes)],
        )

        def code_of(answer: Any) -> int:
            codes = [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
            # If one partition fails, the others have OPERATION_NOT_ATTEMPTED.
            return next((code for code in codes if code not in (Code.NONE, Code.OPERATION_NOT_ATTEMPTED)), max(codes, default=0))

        self._ask_coordinator(TRANSACTION, self.transactional_id, request, "adding partitions to", code_of)
        self._added.update((topic, index) for index in indexes)

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int], metadata: str) -> None:
        """Commit offsets of a group in the transaction: they become visible if the transaction commits."""
        if not self._is_implicit and group not in self._added:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                group_id=group,
            )
            self._ask_coordinator(TRANSACTION, self.transactional_id, add, "adding offsets to", lambda a: a.error_code)
            self._added.add(group)
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        self._ask_coordinator(
            GROUP,
            group,
            request,
            "committing offsets in",
            lambda a: next((p.error_code for t in a.topics for p in t.partitions if p.error_code), 0),
        )

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction. It must have written a batch or an offset."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commit,
        )
        what = "committing" if commit else "aborting"
        answer = self._ask_coordinator(TRANSACTION, self.transactional_id, request, what, lambda a: a.error_code)
        is_raised = answer.producer_id != NO_PRODUCER_ID
        self._begin(*((answer.producer_id, answer.producer_epoch) if is_raised else (self._producer_id, self._epoch)))

    def _ask_coordinator(self, kind: int, key: str, request: Any, what: str, code_of: Callable[[Any], int]) -> Any:
        what = f"{what} the transaction of {self.transactional_id!r}"

        def attempt() -> Any:
            answer = self._brokers.ask(self._brokers.coordinator(kind, key), request)
            check(what, code_of(answer))
            return answer

        return self._until_final(what, attempt)

    def _until_final(self, what: str, attempt: Callable[[], Any], also: Sequence[Code] = ()) -> Any:
        try:
            return self._brokers.until_final(what, attempt, also=also)
        except KafkaAnswered as refused:
            if refused.code in FENCED_ALREADY:
                raise Fenced(
                    f"another process has taken the transactional id {self.transactional_id!r}, or the transaction took over"
                    f" {self._timeout_ms // 1_000} s"
                ) from None
            raise


def stable_offsets(brokers: BrokerConnections, group: str, topic: str) -> dict[int, tuple[int, str]]:
    """Return a group's committed offsets and metadata in a topic, by partition, once no open transaction has others (KIP-447)."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True
    )
    what = f"asking for the offsets of group {group!r}"

    def attempt() -> dict[int, tuple[int, str]]:
        answer = brokers.ask(brokers.coordinator(GROUP, group), request)
        # Before version 8 the response has one group only (KIP-709).
        answered = answer.groups[0] if answer.groups else answer
        check(what, answered.error_code)
        offsets: dict[int, tuple[int, str]] = {}
        for partition in (p for t in answered.topics if t.name == topic for p in t.partitions):
            check(what, partition.error_code)
            if partition.committed_offset >= 0:
                offsets[partition.partition_index] = partition.committed_offset, partition.metadata or ""
        return offsets

    return brokers.until_final(what, attempt)
