"""One transaction of a transactional id, whose records `producing.TopicProducer` writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ottla.client.cluster import TRANSACTION, BrokerConnections
from ottla.client.errors import ClientError, check
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.topic_partition import TopicPartition

TIMEOUT_MS: Final = 60_000
"""The default of transaction.timeout.ms in Kafka's producers."""
LAST_FOR_CLIENTS: Final = 3
"""The last version of AddPartitionsToTxn that clients send. Later versions are for brokers (KIP-890)."""
LAST_WITHOUT_EPOCH_BUMP: Final = 4
"""The last version of EndTxn that does not raise the producer epoch. It works with every level of transaction.version."""


class Transaction:
    """A transaction from its begin until `end`. Its begin fences the id's earlier producer, and aborts that producer's transaction,
    like every start of a producer. Raises `KafkaAnswered`."""

    def __init__(self, brokers: BrokerConnections, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._brokers = brokers
        self.transactional_id = transactional_id
        self._added: set[TopicPartition] = set()
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = brokers.ask_until_final(
            lambda: brokers.coordinator(TRANSACTION, transactional_id),
            request,
            lambda answer: int(answer.error_code),
            f"asking for the producer id of transactional id {transactional_id!r}",
        )
        self.producer_id: int = answer.producer_id
        self.producer_epoch: int = answer.producer_epoch

    def add(self, topic: str, partition: int) -> None:
        """Add a partition to the transaction, before its first record is written. Raises `KafkaAnswered`."""
        if (topic, partition) in self._added:
            return
        what = f"adding {topic}-{partition} to the transaction of {self.transactional_id!r}"
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )

        def attempt() -> None:
            connection = self._brokers.coordinator(TRANSACTION, self.transactional_id)
            answer = self._brokers.ask(connection, request, LAST_FOR_CLIENTS)
            check(what, answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        self._brokers.until_final(what, attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))
        self._added.add((topic, partition))

    def end(self, *, is_committed: bool) -> None:
        """Commit or abort. A transaction without partitions has nothing to end. Raises `KafkaAnswered`."""
        if not self._added:
            return
        what = f"{'committing' if is_committed else 'aborting'} the transaction of {self.transactional_id!r}"
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_committed,
        )

        def attempt() -> None:
            connection = self._brokers.coordinator(TRANSACTION, self.transactional_id)
            check(what, self._brokers.ask(connection, request, LAST_WITHOUT_EPOCH_BUMP).error_code)

        self._brokers.until_final(what, attempt)
        self._added.clear()


@contextmanager
def transaction_of(brokers: BrokerConnections, transactional_id: str | None, *, is_committed: bool) -> Iterator[Transaction | None]:
    """Begin a transaction for the block, and then commit or abort it; None without an id. A block that fails aborts it."""
    if transactional_id is None:
        yield None
        return
    transaction = Transaction(brokers, transactional_id)
    try:
        yield transaction
    except BaseException:
        with suppress(ClientError):
            transaction.end(is_committed=False)
        raise
    transaction.end(is_committed=is_committed)
