"""A transaction that many tasks share. The driver begins and ends the transaction, and writes the progress record.

Transaction version 2 (KIP-890) makes this safe: the end of a transaction raises the epoch, so that brokers reject a task that still
writes after the end; and brokers add a partition to the transaction with the first batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ottla.client.cluster import GROUP, TRANSACTION, BrokerConnections
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.errors import BrokerRefused, NotServed, PipelineError, refusal
from ottla.spark.progress.marks import Mark, commit_of, first_error, group_of
from ottla.spark.progress.progress_topic import ProgressTopic, last_mark

WANTED_VERSION = 2
ONGOING = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""States of a transaction that is open or decided but not complete."""
TRANSACTION_TIMEOUT_MS = 900_000
"""Transaction timeout, in ms: the maximum that brokers allow by default (transaction.max.timeout.ms)."""


class SharedProducer(msgspec.Struct, frozen=True):
    """The transactional id, producer id and epoch that the tasks of one transaction share."""

    transactional_id: str
    producer_id: int
    epoch: int


def state_of(cluster: BrokerConnections, transactional_id: str) -> str | None:
    """Return the state of a transactional id (Kafka's TransactionState); None if the cluster does not know the id.

    Returns an empty text if the broker is older than 3.0 or the client is not authorized. Raises `PipelineError`.
    """
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    try:
        answer = cluster.ask_until_final(
            lambda: cluster.coordinator(TRANSACTION, transactional_id),
            request,
            lambda answer: answer.transaction_states[0].error_code,
            "asking for the transactional id",
        )
    except BrokerRefused as refused:
        return None if refused.code == Code.TRANSACTIONAL_ID_NOT_FOUND else ""
    except NotServed:
        return ""
    return str(answer.transaction_states[0].transaction_state)


def has_expired(cluster: BrokerConnections, transactional_id: str) -> bool:
    """Whether the cluster has expired the id. Raises `PipelineError`."""
    return state_of(cluster, transactional_id) is None


class TransactionRequests:
    """The requests of a transactional id's owner. They raise `PipelineError`, and `Fenced` once a newer producer owns the id."""

    def __init__(self, cluster: BrokerConnections, transactional_id: str, timeout_ms: int) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.group = group_of(transactional_id)
        self._timeout_ms = timeout_ms

    def version(self) -> int:
        """Return the cluster's level of the feature ``transaction.version``."""
        return self.cluster.features().get("transaction.version", 0)

    def initialize(self, producer: SharedProducer) -> SharedProducer:
        """Return the next producer of the transactional id. A ``producer`` with an epoch must still own this id (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )
        answer = self.ask(TRANSACTION, request, "taking the transactional id")
        return SharedProducer(self.transactional_id, answer.producer_id, answer.producer_epoch)

    def commit_offsets(self, producer: SharedProducer, commit: Mapping[str, Mapping[int, tuple[int, str]]]) -> None:
        """Commit offsets and metadata, by topic and partition, for the sink's group in the producer's open transaction."""
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                    for index, (offset, metadata) in partitions.items()
                ],
            )
            for topic, partitions in commit.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=topics,
        )
        self.ask(GROUP, request, "marking the batch", lambda a: first_error(a.topics))

    def end(self, producer: SharedProducer, *, commit: bool) -> SharedProducer:
        """Commit or abort the transaction. With transaction version 2, returns the producer of the next transaction."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self.ask(TRANSACTION, request, "committing" if commit else "aborting")
        return SharedProducer(self.transactional_id, answer.producer_id, answer.producer_epoch)

    def ask(self, kind: int, request: Any, what: str, code_of: Any = lambda a: a.error_code) -> Any:
        """Send a request to the coordinator of the id (`TRANSACTION`) or of its group (`GROUP`)."""
        key = self.group if kind == GROUP else self.transactional_id
        try:
            return self.cluster.ask_until_final(lambda: self.cluster.coordinator(kind, key), request, code_of, what)
        except BrokerRefused as refused:
            if refused.code == Code.INVALID_TRANSACTION_TIMEOUT:
                raise PipelineError(
                    f"a transaction of {self._timeout_ms} ms is more than the broker's transaction.max.timeout.ms allows:"
                    " give a smaller transaction.timeout.ms"
                ) from None
            raise refusal(self.transactional_id, refused) from None


class SharedTransaction:
    """The transactions of one transactional id. Every method raises `Fenced` once a newer producer owns the id."""

    def __init__(
        self,
        cluster: BrokerConnections,
        transactional_id: str,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        producer: SharedProducer | None = None,
        progress: ProgressTopic | None = None,
    ) -> None:
        """``producer`` continues a transaction that has begun in another process."""
        self._requests = TransactionRequests(cluster, transactional_id, timeout_ms)
        self.transactional_id = transactional_id
        self._has_begun = producer is not None
        self.producer = producer or SharedProducer(transactional_id, -1, -1)
        self._progress = progress

    def begin(self) -> Mark | None:
        """Fence earlier producers, end their open transaction, and read the last progress record."""
        if not self._has_begun:
            version = self._requests.version()
            if version < WANTED_VERSION:
                raise PipelineError(
                    f"the broker's transaction.version is {version}, and a shared transaction needs 2: raise it with"
                    " kafka-features, or give the option writer=driver, which writes from one process"
                )
            self.producer = self._requests.initialize(SharedProducer(self.transactional_id, -1, -1))
        # Only the first call continues a transaction from another process. Later calls initialize the transactional id.
        self._has_begun = False
        return last_mark(self._requests.cluster, self.transactional_id, self._progress)

    def mark(self, mark: Mark, ends: Mapping[TopicPartition, int]) -> None:
        """Write the batch's progress in the transaction: ``ends`` as offsets of the group, if there are any (`marks.commit_of`),
        and a record in the progress topic."""
        if ends:
            self._requests.commit_offsets(self.producer, commit_of(mark, ends))
        if self._progress is not None:
            try:
                self._progress.write(self.producer.producer_id, self.producer.epoch, mark, ends)
            except BrokerRefused as refused:
                raise refusal(self.transactional_id, refused) from None

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction. The next transaction has the next epoch."""
        self.producer = self._requests.end(self.producer, commit=commit)

    def close(self) -> None:
        """Close the connections. A later request opens them again."""
        self._requests.cluster.close()

    def has_expired(self) -> bool:
        return has_expired(self._requests.cluster, self.transactional_id)
