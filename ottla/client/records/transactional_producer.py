"""Writes records and offsets of groups in transactions (KIP-98).

With ``transaction.version`` 2 (KIP-890) brokers add partitions and groups to the transaction; with older versions the client does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final

from ottla.client.admin.transactions import EPOCH_BUMP_LEVEL, FENCED_ALREADY, TRANSACTION_VERSION
from ottla.client.cluster import GROUP, TRANSACTION, BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.client.records.producing import TRANSACTION_TIMEOUT_MS, IdempotentProducer
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import NO_PRODUCER_ID
from ottla.protocol.topic_partition import TopicPartition

COMMITTING_OFFSETS: Final = "committing offsets of group"
"""Error messages from a group coordinator begin with this text. All others are from the transaction coordinator or partition
leaders."""


class FencedProducer(KafkaAnswered):
    """Another process has fenced the producer of the transactional id, or the transaction has timed out."""


class TransactionalProducer:
    """The producer of a transactional id. The constructor fences the id's other producers, and waits until their open transaction
    is complete. For each transaction the caller calls `write` and `commit_offsets` any number of times, and then `end`.

    The connections are an argument of each method, so that a long transaction keeps no connection open. Methods raise
    `FencedProducer`, and `KafkaAnswered` for other errors. After an error the transaction may still be open: `end` may abort it,
    and otherwise the next producer of the id aborts it.
    """

    def __init__(self, brokers: BrokerConnections, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> None:
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._is_implicit = brokers.features().get(TRANSACTION_VERSION, 0) >= EPOCH_BUMP_LEVEL
        """Whether brokers add partitions and groups to the transaction."""
        self._producer = IdempotentProducer(brokers, transactional_id, timeout_ms)
        self._added: set[TopicPartition | str] = set()
        """Partitions and groups of the open transaction."""

    @contextmanager
    def transaction(self, brokers: BrokerConnections, *, commit: bool = True) -> Iterator[TransactionalProducer]:
        """After the block, commit the transaction; abort it if the block fails or ``commit`` is false."""
        try:
            yield self
        except BaseException:
            # If the abort fails, the coordinator aborts the transaction after its timeout.
            with suppress(ClientError):
                self.end(brokers, commit=False)
            raise
        self.end(brokers, commit=commit)

    def write(self, brokers: BrokerConnections, topic: str, batches: Mapping[int, Buffer]) -> dict[int, int]:
        """Write batches in the transaction, as `producing.IdempotentProducer.write` does."""
        self._add_partitions(brokers, topic, [index for index in batches if (topic, index) not in self._added])
        with self._noticing_fence():
            return self._producer.write(brokers, topic, batches)

    def _add_partitions(self, brokers: BrokerConnections, topic: str, indexes: list[int]) -> None:
        if indexes and not self._is_implicit:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._producer.producer_id,
                v3_and_below_producer_epoch=self._producer.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes)],
            )

            def check_each(answer: Any) -> None:
                codes = {
                    p.partition_index: p.partition_error_code for p in answer.results_by_topic_v3_and_below[0].results_by_partition
                }
                # If one partition fails, the others have OPERATION_NOT_ATTEMPTED, so report the failed partition first.
                for index in sorted(codes, key=lambda index: codes[index] == Code.OPERATION_NOT_ATTEMPTED):
                    check(f"adding {topic}-{index} to the transaction of {self.transactional_id!r}", codes[index])

            # The coordinator may not know a new topic yet.
            also = (Code.UNKNOWN_TOPIC_OR_PARTITION,)
            self._ask(brokers, TRANSACTION, self.transactional_id, request, f"adding topic {topic!r} to", check_each, also)
        self._added.update((topic, index) for index in indexes)

    def commit_offsets(
        self, brokers: BrokerConnections, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Commit offsets of a group in the transaction: they become visible if the transaction commits."""
        owner: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self._producer.producer_id,
            "producer_epoch": self._producer.epoch,
            "group_id": group,
        }
        if group not in self._added and not self._is_implicit:
            self._ask(brokers, TRANSACTION, self.transactional_id, AddOffsetsToTxnRequest(**owner), f"adding group {group!r} to")
        self._added.add(group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(offsets.items()):
            partition = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            topics.setdefault(topic, []).append(partition)
        named = [TxnOffsetCommitRequestTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()]
        what = f"{COMMITTING_OFFSETS} {group!r} in"

        def check_each(answer: Any) -> None:
            for topic in answer.topics:
                for partition in topic.partitions:
                    of = f"{what} the transaction of {self.transactional_id!r} for {topic.name}-{partition.partition_index}"
                    check(of, partition.error_code)

        self._ask(brokers, GROUP, group, TxnOffsetCommitRequest(**owner, topics=named), what, check_each)

    def end(self, brokers: BrokerConnections, *, commit: bool) -> None:
        """Commit or abort the transaction. A transaction without partitions and groups needs no request."""
        if not self._added:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            committed=commit,
        )
        what = "committing" if commit else "aborting"
        answer = self._ask(brokers, TRANSACTION, self.transactional_id, request, what)
        if answer.producer_id != NO_PRODUCER_ID:
            self._producer.continue_as(answer.producer_id, answer.producer_epoch)
        self._added.clear()

    def _ask(
        self,
        brokers: BrokerConnections,
        kind: int,
        key: str,
        request: Any,
        what: str,
        check_answer: Callable[[Any], None] | None = None,
        also: Iterable[Code] = (),
    ) -> Any:
        """Send a request to a coordinator. ``check_answer`` raises the response's errors; by default the top-level error code is
        checked. Codes in ``also`` are retried."""
        what = f"{what} the transaction of {self.transactional_id!r}"

        def attempt() -> Any:
            answer = brokers.ask(brokers.coordinator(kind, key), request)
            if check_answer is None:
                check(what, answer.error_code)
            else:
                check_answer(answer)
            return answer

        with self._noticing_fence():
            return brokers.until_final(what, attempt, also)

    @contextmanager
    def _noticing_fence(self) -> Iterator[None]:
        try:
            yield
        except KafkaAnswered as refused:
            if refused.code not in FENCED_ALREADY:
                raise
            limit_s = self._timeout_ms / 1_000
            message = (
                f"another process has taken the transactional id {self.transactional_id!r}, or the transaction took over"
                f" {limit_s:g} s"
            )
            raise FencedProducer(refused.what, refused.number, message) from None


def transaction_of(
    brokers: BrokerConnections, transactional_id: str | None, *, commit: bool
) -> AbstractContextManager[TransactionalProducer | None]:
    """Return a context manager for one transaction of a transactional id (`TransactionalProducer.transaction`). For None it does
    nothing."""
    if transactional_id is None:
        return nullcontext()
    return TransactionalProducer(brokers, transactional_id).transaction(brokers, commit=commit)
