"""A producer, like Kafka's Sender and TransactionManager: sequences, retries in order, transactions of both versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import build_batch
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.clients.wire import GROUP, LEADER_ELSEWHERE, TRANSACTION, Address, Client, Disconnected, GaveUp
from ottla.simulation.history import TriedRecord
from ottla.simulation.tasks import Promise, Steps

DELIVERY_TIMEOUT_MS = 5_000
INIT_PATIENCE_MS = 60_000
MAX_IN_FLIGHT = 5
"""Maximum number of requests in flight per connection (max.in.flight.requests.per.connection).

The broker remembers the same number of batches for each producer.
"""
TRANSACTIONS_V2 = 2
PRODUCE_V1, ADD_PARTITIONS_V1, OFFSETS_V1, END_V1 = 11, 3, 4, 4
"""Newest versions of Produce, AddPartitionsToTxn, TxnOffsetCommit and EndTxn for transaction version 1 (KIP-890)."""
OFFSETS_BY_NAME = 5

FENCED = {Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH}
ASK_PRODUCE_AGAIN = {*LEADER_ELSEWHERE, Code.CONCURRENT_TRANSACTIONS, Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT}


class ProducerFenced(Exception):
    """Another producer is now the owner of the transactional id."""


class Abortable(Exception):
    """The transaction cannot be committed. The producer can continue after an abort."""


class Fatal(Exception):
    """The producer cannot continue. The application needs a new producer."""


@dataclass(slots=True)
class Batch:
    """Records of one partition that are being sent."""

    where: TopicPartition
    records: list[TriedRecord]
    raw: bytes
    sends: int = 0


@dataclass(slots=True)
class WriterIdentity:
    """Producer id and epoch, and the next sequence of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


def _raise_for(codes: Sequence[int]) -> None:
    for code in map(Code, codes):
        if code in FENCED:
            raise ProducerFenced(code.name)
        if code is Code.TRANSACTION_ABORTABLE:
            raise Abortable(code.name)
        if code is not Code.NONE:
            raise Fatal(code.name)


class SimulatedProducer:
    """A transactional producer, or an idempotent producer if ``transactional_id`` is None."""

    def __init__(self, client: Client, transactional_id: str | None, timeout_ms: int) -> None:
        self._client = client
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self.identity = WriterIdentity(-1, -1)
        self._added: set[TopicPartition] = set()
        self.has_unresolved = False
        """Whether abandoned batches may still be written. Then the next transaction needs a newer epoch, which fences them."""

    @property
    def is_v2(self) -> bool:
        return self._client.transaction_version >= TRANSACTIONS_V2

    def initialise(self, *, again: bool = False) -> Steps[None]:
        """Send InitProducerId; with ``again`` request the next epoch. Raises `ProducerFenced`, `Fatal` and `GaveUp`."""
        known = self.identity if again else WriterIdentity(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )
        if self._id is None:
            answer = yield from self._ask_any(request)
        else:
            answer, asked = yield from self._client.ask_coordinator(
                TRANSACTION, self._id, request, lambda a: [a.error_code], patience_ms=INIT_PATIENCE_MS
            )
            if asked and answer.error_code == Code.NONE:
                self._client.note("a repeated InitProducerId is answered")
        _raise_for([answer.error_code])
        self.identity = WriterIdentity(answer.producer_id, answer.producer_epoch)
        self.has_unresolved = False

    def _ask_any(self, request: Any) -> Steps[Any]:
        deadline_ms = self._client.now_ms + INIT_PATIENCE_MS
        for attempt in range(1 << 20):
            try:
                answer = yield from self._client.ask(self._client.any_broker(), request)
                if answer.error_code not in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE):
                    return answer
            except Disconnected:
                pass
            if self._client.now_ms > deadline_ms:
                break
            yield self._client.backoff(attempt)
        raise GaveUp

    # sending records

    def batch(self, where: TopicPartition, records: list[TriedRecord]) -> Batch:
        """Build the next batch of a partition."""
        identity = self.identity
        sequence = identity.sequences.get(where, 0)
        identity.sequences[where] = sequence + len(records)
        raw = build_batch(
            [(None, record.value.encode()) for record in records],
            self._client.now_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=self._id is not None,
        )
        return Batch(where, records, bytes(raw))

    def send(self, batches: list[Batch]) -> Steps[None]:
        """Send until all batches are acknowledged. Raises `ProducerFenced`, `Abortable`, `Fatal` and `GaveUp`."""
        deadline_ms = self._client.now_ms + DELIVERY_TIMEOUT_MS
        left = list(batches)
        for attempt in range(1 << 20):
            try:
                left = yield from self._send_once(left)
            except (ProducerFenced, Abortable, Fatal):
                self.has_unresolved = True
                raise
            if not left:
                return
            if self._client.now_ms > deadline_ms:
                self.has_unresolved = True
                self._client.note("a batch that was given up")
                raise GaveUp
            yield self._client.backoff(attempt)

    def _send_once(self, batches: list[Batch]) -> Steps[list[Batch]]:
        """Send all batches once, without waiting for responses in between. Returns the batches to send again."""
        sent: list[tuple[list[Batch], Promise]] = []
        left: list[Batch] = []
        for wave in _waves(batches):
            if len(sent) == MAX_IN_FLIGHT or left:
                left += wave
                continue
            try:
                by_leader: dict[Address, list[Batch]] = {}
                for batch in wave:
                    address = yield from self._client.leader(batch.where)
                    by_leader.setdefault(address, []).append(batch)
                for address, mine in by_leader.items():
                    promise = yield from self._client.send(address, self._request(mine), None if self.is_v2 else PRODUCE_V1)
                    for batch in mine:
                        batch.sends += 1
                    sent.append((mine, promise))
            except Disconnected:
                left += [batch for batch in wave if not any(batch in mine for mine, _ in sent)]
        failed: list[Batch] = []
        for mine, promise in sent:
            try:
                answer = yield promise
            except Disconnected:
                for batch in mine:
                    self._client.forget_leader(batch.where)
                failed += mine
            else:
                failed += self._judge(mine, answer, failed)
        return failed + left

    def _request(self, batches: list[Batch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topics.setdefault(batch.where[0], []).append(PartitionProduceData(index=batch.where[1], records=batch.raw))
        data = [
            TopicProduceData(name=topic, topic_id=self._client.topic_ids[topic], partition_data=parts)
            for topic, parts in topics.items()
        ]
        return ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=1_500, topic_data=data)

    def _judge(self, batches: list[Batch], answer: Any, failed: list[Batch]) -> list[Batch]:
        """Return the batches to send again. ``failed`` are batches that were sent earlier and must be sent again as well."""
        client = self._client
        given = {}
        for topic in answer.responses:
            name = topic.name or client.topic_names.get(topic.topic_id)
            for partition in topic.partition_responses:
                given[name, partition.index] = partition
        again = []
        for batch in batches:
            partition = given[batch.where]
            code = Code(partition.error_code)
            if code is Code.NONE:
                for at, record in enumerate(batch.records):
                    record.offset = partition.base_offset + at
            elif code is Code.DUPLICATE_SEQUENCE_NUMBER:
                client.note("a retry that is too old for a duplicate response")
            elif code in ASK_PRODUCE_AGAIN:
                client.note(f"a producer receives {code.name}")
                client.forget_leader(batch.where)
                again.append(batch)
            elif code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER and any(batch.where == other.where for other in failed):
                client.note("a batch after a lost batch is refused")
                again.append(batch)
            else:
                client.note(f"a producer receives {code.name}")
                if code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER or (code is Code.INVALID_TXN_STATE and self._id is not None):
                    raise Abortable(code.name)
                _raise_for([code])
        return again

    # sending transaction requests

    def add_partitions(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Add partitions to the transaction. Transaction version 2 needs no request: a partition's first batch adds it."""
        if self.is_v2:
            return
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=str(self._id),
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )
        yield from self._ask(
            request,
            lambda a: [p.partition_error_code for t in a.results_by_topic_v3_and_below for p in t.results_by_partition],
            at_most=ADD_PARTITIONS_V1,
        )

    def send_offsets(self, group: str, offsets: dict[TopicPartition, int]) -> Steps[None]:
        if not self.is_v2:
            add = AddOffsetsToTxnRequest(
                transactional_id=str(self._id),
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                group_id=group,
            )
            yield from self._ask(add, lambda a: [a.error_code])
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            partition = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            topics.setdefault(topic, []).append(partition)
        request = TxnOffsetCommitRequest(
            transactional_id=str(self._id),
            group_id=group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in topics.items()],
        )
        answer, _ = yield from self._client.ask_coordinator(
            GROUP,
            group,
            request,
            lambda a: [p.error_code for t in a.topics for p in t.partitions],
            patience_ms=DELIVERY_TIMEOUT_MS,
            at_most=OFFSETS_BY_NAME if self.is_v2 else OFFSETS_V1,
        )
        _raise_for([p.error_code for t in answer.topics for p in t.partitions])

    def end(self, *, commit: bool) -> Steps[None]:
        """Commit or abort the transaction. Raises `ProducerFenced`, `Abortable`, `Fatal` and `GaveUp`."""
        request = EndTxnRequest(
            transactional_id=str(self._id),
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=commit,
        )
        try:
            answer, asked = yield from self._ask(
                request, lambda a: [a.error_code], at_most=None if self.is_v2 else END_V1, patience_ms=INIT_PATIENCE_MS
            )
        except ProducerFenced:
            self._client.note("a fencing while a commit is in flight" if commit else "a fencing while an abort is in flight")
            raise
        if asked:
            self._client.note("a repeated EndTxn is answered")
        if answer.producer_id >= 0 and (answer.producer_id, answer.producer_epoch) != (
            self.identity.producer_id,
            self.identity.epoch,
        ):
            self.identity = WriterIdentity(answer.producer_id, answer.producer_epoch)
            # Abandoned batches that may still arrive have an old epoch, so the broker refuses them.
            self.has_unresolved = False

    def _ask(self, request: Any, codes: Any, *, at_most: int | None = None, patience_ms: float = DELIVERY_TIMEOUT_MS) -> Steps[Any]:
        answer, asked = yield from self._client.ask_coordinator(
            TRANSACTION, str(self._id), request, codes, patience_ms=patience_ms, at_most=at_most
        )
        _raise_for(codes(answer))
        return answer, asked


def _waves(batches: list[Batch]) -> list[list[Batch]]:
    """Group the batches into requests, in order. A request has at most one batch of a partition."""
    waves: list[list[Batch]] = []
    counts: dict[TopicPartition, int] = {}
    for batch in batches:
        at = counts[batch.where] = counts.get(batch.where, -1) + 1
        if at == len(waves):
            waves.append([])
        waves[at].append(batch)
    return waves
