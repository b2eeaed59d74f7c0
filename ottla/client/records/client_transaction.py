"""A transaction of this client: its records, the offsets that it commits, and its end.

With transaction version 2 (KIP-890) brokers add partitions with the first batch. With version 1 the client adds them by
AddPartitionsToTxn and AddOffsetsToTxn before it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.client.cluster import GROUP, TRANSACTION, BrokerConnections
from ottla.client.errors import ClientError, check
from ottla.client.real_time import now_ms
from ottla.client.records.producing import ProducerState, WrittenRecord, initialized, produce_each
from ottla.client.records.record import NewRecord
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.topic_partition import TopicPartition


class ClientTransaction:
    """One transaction of a transactional id. It begins when it is created: an open transaction of the same id is aborted, and its
    producer is fenced.

    Each method is given the connections to use, so that a transaction that stays open for long keeps none. Raises `KafkaAnswered`.
    """

    def __init__(
        self, brokers: BrokerConnections, transactional_id: str, timeout_ms: int, now_ms: Callable[[], int] = now_ms
    ) -> None:
        self.transactional_id = transactional_id
        self._now_ms = now_ms
        self._producer: ProducerState = initialized(brokers, transactional_id, timeout_ms)
        self._adds_partitions = brokers.features().get("transaction.version", 0) < 2
        self._added: set[TopicPartition | str] = set()
        """Partitions and groups that AddPartitionsToTxn and AddOffsetsToTxn have added."""
        self._is_empty = True
        self.is_open = True

    def produce(self, brokers: BrokerConnections, topic: str, records: Sequence[NewRecord]) -> list[WrittenRecord]:
        """Write records, which readers with read_committed see after the commit."""
        self._check_open()
        if not records:
            return []
        self._is_empty = False

        def add(index: int) -> None:
            self._add_partition(brokers, topic, index)

        return produce_each(brokers, topic, records, self._now_ms, state=self._producer, before_batch=add)

    def commit_offsets(self, brokers: BrokerConnections, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group, which take effect with the commit of the transaction."""
        self._check_open()
        self._is_empty = False
        if self._adds_partitions and group not in self._added:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._producer.producer_id,
                producer_epoch=self._producer.epoch,
                group_id=group,
            )
            self._ask(brokers, adding, f"adding group {group!r} to the transaction")
            self._added.add(group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(offsets.items()):
            partition = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            topics.setdefault(topic, []).append(partition)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in topics.items()],
        )
        what = f"committing offsets of group {group!r} in the transaction of {self.transactional_id!r}"

        def attempt() -> None:
            answer = brokers.ask(brokers.coordinator(GROUP, group), request)
            for topic in answer.topics:
                for partition in topic.partitions:
                    check(f"{what} for {topic.name}-{partition.partition_index}", partition.error_code)

        brokers.until_final(what, attempt)

    def end(self, brokers: BrokerConnections, *, commit: bool) -> None:
        """Commit or abort the transaction. A transaction without records and offsets needs no request."""
        self._check_open()
        if not self._is_empty:
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._producer.producer_id,
                producer_epoch=self._producer.epoch,
                committed=commit,
            )
            self._ask(brokers, request, f"{'committing' if commit else 'aborting'} the transaction of {self.transactional_id!r}")
        self.is_open = False

    def _add_partition(self, brokers: BrokerConnections, topic: str, index: int) -> None:
        if not self._adds_partitions or (topic, index) in self._added:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        self._ask(brokers, request, f"adding {topic}-{index} to the transaction", _code_of_adding)
        self._added.add((topic, index))

    def _ask(
        self, brokers: BrokerConnections, request: Any, what: str, code_of: Callable[[Any], int] = lambda answer: answer.error_code
    ) -> None:
        brokers.ask_until_final(lambda: brokers.coordinator(TRANSACTION, self.transactional_id), request, code_of, what)

    def _check_open(self) -> None:
        if not self.is_open:
            raise ClientError(f"the transaction of {self.transactional_id!r} has ended; begin another one")


def _code_of_adding(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
