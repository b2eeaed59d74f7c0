"""A transaction that many tasks share: the driver owns its id and epoch, begins and ends it, and marks the batch in it.

Transaction version 2 (KIP-890) makes this safe: each end bumps the epoch, so that a task which is still writing when its
transaction is over is refused, and partitions join with their first batch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.pipeline.errors import FENCED, BrokerRefused, Fenced, PipelineError
from ottla.pipeline.wire import GROUP, TRANSACTION, ClusterClient
from ottla.protocol.errors import Code
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

WANTED_VERSION = 2


class Producer(msgspec.Struct, frozen=True):
    """With what identity the tasks of one transaction write."""

    transactional_id: str
    producer_id: int
    epoch: int


class Mark(msgspec.Struct, frozen=True):
    """The last batch that was committed, as it stands in the offset's metadata. ``query`` is the stream's own id.

    ``input`` is where the batch's input ended, as `checkpoint.input_of` has it; empty where nobody has said so.
    """

    query: str
    batch: int
    run: str
    input: str = ""


def group_of(transactional_id: str) -> str:
    """Where the mark is kept: a group of its own, so that no other pipeline's open transaction hides it."""
    return f"ottla-pipeline.{transactional_id}"


def parse_mark(text: str, group: str) -> Mark:
    """Raises `PipelineError`."""
    try:
        return msgspec.json.decode(text, type=Mark)
    except msgspec.DecodeError:
        raise PipelineError(f"group {group!r} holds offsets of no pipeline; take another transactional id") from None


class Transaction:
    """One transactional id. Raises `Fenced` from any call once another pipeline has taken it over."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, mark_topic: str, timeout_ms: int = 900_000) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._mark_topic = mark_topic
        self._timeout_ms = timeout_ms
        self.producer = Producer(transactional_id, -1, -1)
        self.group = group_of(transactional_id)

    def begin(self) -> Mark | None:
        """Fence whoever ran before, end what it left open, and read what was committed last."""
        version = self._cluster.transaction_version()
        if version < WANTED_VERSION:
            raise PipelineError(
                f"the broker's transaction.version is {version}, and a shared transaction needs 2: raise it with"
                " kafka-features, or use --sink driver, which writes from one process"
            )
        answer = self._ask(
            TRANSACTION,
            self._id,
            InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=self._timeout_ms),
            "taking the transactional id",
        )
        self.producer = Producer(self._id, answer.producer_id, answer.producer_epoch)
        return self._read_mark()

    def _read_mark(self) -> Mark | None:
        wanted = OffsetFetchRequestGroup(self.group, topics=[OffsetFetchRequestTopics(self._mark_topic, partition_indexes=[0])])
        request = OffsetFetchRequest(groups=[wanted], require_stable=True)

        def code_of(answer: Any) -> int:
            group = answer.groups[0]
            return int(group.error_code or group.topics[0].partitions[0].error_code)

        answer = self._cluster.ask(
            lambda: self._cluster.coordinator(GROUP, self.group), request, code_of, "reading the last committed batch"
        )
        partition = answer.groups[0].topics[0].partitions[0]
        if partition.committed_offset < 0:
            return None
        return parse_mark(partition.metadata or "", self.group)

    def mark(self, mark: Mark) -> None:
        """Note the batch as part of the transaction."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=mark.batch, committed_metadata=msgspec.json.encode(mark).decode()
        )
        topics = [TxnOffsetCommitRequestTopic(name=self._mark_topic, partitions=[partition])]
        me = self.producer
        request = TxnOffsetCommitRequest(
            transactional_id=self._id, group_id=self.group, producer_id=me.producer_id, producer_epoch=me.epoch, topics=topics
        )
        self._ask(GROUP, self.group, request, "marking the batch", lambda a: a.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> None:
        """Commit or abort; the next transaction has the next epoch."""
        me = self.producer
        request = EndTxnRequest(transactional_id=self._id, producer_id=me.producer_id, producer_epoch=me.epoch, committed=commit)
        answer = self._ask(TRANSACTION, self._id, request, "committing" if commit else "aborting")
        self.producer = Producer(self._id, answer.producer_id, answer.producer_epoch)

    def _ask(self, kind: int, key: str, request: Any, what: str, code_of: Any = lambda a: a.error_code) -> Any:
        try:
            return self._cluster.ask(lambda: self._cluster.coordinator(kind, key), request, code_of, what)
        except BrokerRefused as refused:
            if refused.arguments[1] in FENCED:
                raise Fenced(self._id) from None
            if refused.arguments[1] == Code.INVALID_TRANSACTION_TIMEOUT:
                raise PipelineError(
                    f"a transaction of {self._timeout_ms} ms is more than the broker's transaction.max.timeout.ms allows"
                ) from None
            raise
