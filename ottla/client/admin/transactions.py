"""Lists, describes and aborts transactions, and finds hanging transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin.offsets import by_leader
from ottla.client.cluster import TRANSACTION, BrokerConnections, BrokerNode
from ottla.client.errors import ClientError, KafkaAnswered, check
from ottla.client.wire.connection import BrokerConnection
from ottla.client.wording import command_for
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TxnState

MAX_TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1_000
"""The default of ``transaction.max.timeout.ms``. A transaction that is open for longer may hang."""
OPEN_STATES: Final = (TxnState.ONGOING.label, TxnState.PREPARE_COMMIT.label, TxnState.PREPARE_ABORT.label)
"""States of transactions that are not complete: the coordinator will still write their markers."""
TRANSACTION_VERSION: Final = "transaction.version"
EPOCH_BUMP_LEVEL: Final = 2
"""The level of transaction.version from which each transaction has its own producer epoch."""
EPOCH_BUMP_FROM: Final = 5
"""The first version of EndTxn that raises the producer epoch."""
FENCED_ALREADY: Final = (Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH)
ENDED_MEANWHILE: Final = (*FENCED_ALREADY, Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_ID_MAPPING)
"""Error codes of EndTxn which show that the described transaction has ended."""
_NONE: Final = -1


@dataclass(slots=True, frozen=True)
class TransactionListing:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(slots=True, frozen=True)
class TransactionDescription:
    """The coordinator's state of a transactional id. ``start_ms`` is None while no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: list[TopicPartition]

    @property
    def is_ongoing(self) -> bool:
        """Whether the outcome of the transaction is undecided."""
        return self.state == TxnState.ONGOING.label


@dataclass(slots=True, frozen=True)
class OpenTransaction:
    """An open transaction in a partition. ``coordinator_epoch`` is that of the producer's last marker in the partition; None
    without a marker."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int
    coordinator_epoch: int | None


@dataclass(slots=True, frozen=True)
class HangingTransaction:
    """An open transaction that no coordinator knows. ``transactional_id`` is the id to which its producer id belongs; None if no id
    has it. ``idle_ms`` is the time since the last write."""

    transaction: OpenTransaction
    transactional_id: str | None
    idle_ms: int


def list_transactions(
    brokers: BrokerConnections,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = _NONE,
    silent: list[ClientError] | None = None,
) -> list[TransactionListing]:
    """List the transactions of all coordinators, ordered by id. An error for an unreachable broker is raised, or added to
    ``silent`` if that is given; the broker's transactions are then missing. Raises `ClientError` for an unknown state."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
    )

    def ask(node: BrokerNode, connection: BrokerConnection) -> list[TransactionListing]:
        answer = brokers.ask(connection, request)
        check("listing transactions", answer.error_code)
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise ClientError(f"unknown transaction state {unknown}; states are Empty, Ongoing, PrepareCommit, PrepareAbort, ...")
        return [
            TransactionListing(
                transactional_id=t.transactional_id,
                coordinator=node.node_id,
                producer_id=t.producer_id,
                state=t.transaction_state,
            )
            for t in answer.transaction_states
        ]

    return sorted(brokers.of_all("listing transactions", ask, silent), key=lambda listing: listing.transactional_id)


def describe(brokers: BrokerConnections, transactional_id: str) -> TransactionDescription:
    """Describe a transactional id. Raises `KafkaAnswered` for an unknown id."""

    def attempt() -> TransactionDescription:
        connection = brokers.coordinator(TRANSACTION, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        described = brokers.ask(connection, request).transaction_states[0]
        if described.error_code == Code.TRANSACTIONAL_ID_NOT_FOUND:
            message = "ottla txn list shows the transactional ids"
            raise KafkaAnswered(f"unknown transactional id {transactional_id!r}", described.error_code, message)
        check(f"describing transactional id {transactional_id!r}", described.error_code)
        return _described(described)

    return brokers.until_final(f"describing transactional id {transactional_id!r}", attempt)


def _described(answered: Any) -> TransactionDescription:
    # The start time of an ended transaction, which the coordinator keeps for producers without KIP-890, is ignored.
    is_open = answered.transaction_state in OPEN_STATES
    start_ms = answered.transaction_start_time_ms
    return TransactionDescription(
        transactional_id=answered.transactional_id,
        state=answered.transaction_state,
        producer_id=answered.producer_id,
        epoch=answered.producer_epoch,
        timeout_ms=answered.transaction_timeout_ms,
        start_ms=start_ms if is_open and start_ms >= 0 else None,
        partitions=sorted((part.topic, index) for part in answered.topics for index in part.partitions),
    )


def describe_if_known(brokers: BrokerConnections, transactional_id: str) -> TransactionDescription | None:
    """Describe a transactional id. Returns None for an unknown id: a listed id may have expired before it is described."""
    try:
        return describe(brokers, transactional_id)
    except KafkaAnswered as refused:
        if refused.code != Code.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return None


def describe_listed(brokers: BrokerConnections, coordinators: Mapping[str, int | None]) -> list[TransactionDescription]:
    """Describe transactional ids, given with their coordinators, with one request to each coordinator. Ids that have expired
    meanwhile are omitted; an id whose coordinator has moved is described with a request of its own. Raises `ClientError` for a
    coordinator that does not respond."""
    names: dict[int, list[str]] = {}
    for transactional_id, coordinator in coordinators.items():
        if coordinator is not None:
            names.setdefault(coordinator, []).append(transactional_id)

    nodes = {node.node_id: node for node in brokers.nodes()} if names else {}
    answers: dict[str, Any] = {}
    for node_id in sorted(names.keys() & nodes.keys()):

        def attempt(node: BrokerNode = nodes[node_id]) -> list[Any]:
            request = DescribeTransactionsRequest(transactional_ids=names[node.node_id])
            states: list[Any] = brokers.ask(brokers.node(node), request).transaction_states
            return states

        states = brokers.until_final(f"describing transactions of broker {node_id}", attempt)
        answers.update((state.transactional_id, state) for state in states)
    found: list[TransactionDescription | None] = []
    for transactional_id in coordinators:
        answer = answers.get(transactional_id)
        if answer is not None and answer.error_code == Code.NONE:
            found.append(_described(answer))
        elif answer is None or answer.error_code != Code.TRANSACTIONAL_ID_NOT_FOUND:
            found.append(describe_if_known(brokers, transactional_id))
    return [one for one in found if one is not None]


def open_transactions(brokers: BrokerConnections, topic: str, indexes: Iterable[int] | None = None) -> list[OpenTransaction]:
    """Return the open transactions of a topic, ordered by partition and start offset (DescribeProducers)."""
    wanted = None if indexes is None else list(indexes)
    what = f"asking for the producers of topic {topic!r}"

    def attempt() -> list[OpenTransaction]:
        transactions = []
        for connection, mine in by_leader(brokers.leaders(topic, wanted)):
            request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=mine)])
            for described in brokers.ask(connection, request).topics[0].partitions:
                check(what, described.error_code, described.error_message)
                transactions += [
                    OpenTransaction(
                        topic=topic,
                        partition=described.partition_index,
                        producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch,
                        start_offset=producer.current_txn_start_offset,
                        last_timestamp_ms=producer.last_timestamp,
                        coordinator_epoch=producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
                    )
                    for producer in described.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
        return sorted(transactions, key=lambda t: (t.partition, t.start_offset))

    return brokers.until_final(what, attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))


def abort_in_partition(brokers: BrokerConnections, topic: str, partition: int, start_offset: int) -> OpenTransaction:
    """Write an abort marker for the transaction that begins at an offset, like ``kafka-transactions abort --start-offset``.

    Use it only for hanging transactions, because the coordinator's state does not change. Raises `ClientError` if no open
    transaction begins at the offset.
    """
    transactions = open_transactions(brokers, topic, [partition])
    transaction = next((t for t in transactions if t.start_offset == start_offset), None)
    if transaction is None:
        begins = ", ".join(str(t.start_offset) for t in transactions)
        hint = f"open transactions begin at {begins}" if begins else "the partition has no open transaction"
        raise ClientError(f"no open transaction begins at offset {start_offset} of {topic}-{partition}; {hint}")
    write_abort_marker(
        brokers,
        topic,
        partition,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        # A partition that has no marker of this producer accepts any coordinator epoch (TransactionsCommand).
        coordinator_epoch=transaction.coordinator_epoch or 0,
    )
    return transaction


def write_abort_marker(
    brokers: BrokerConnections, topic: str, partition: int, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Write an abort marker to a partition (WriteTxnMarkers). Raises `KafkaAnswered`."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
    )
    what = f"aborting the transaction of producer {producer_id} in {topic}-{partition}"

    def attempt() -> None:
        answer = brokers.ask(brokers.leader(topic, partition), WriteTxnMarkersRequest(markers=[marker]))
        check(what, answer.markers[0].topics[0].partitions[0].error_code)

    brokers.until_final(what, attempt, also=(Code.UNKNOWN_TOPIC_OR_PARTITION,))


def abort(brokers: BrokerConnections, transactional_id: str, known: TransactionDescription | None = None) -> TransactionDescription:
    """Abort the open transaction of a transactional id and fence its producer. Returns the description from before the abort:
    ``known``, if given.

    EndTxn contains the described producer id and epoch, so with transaction.version 2, where each transaction has its own epoch, a
    newer transaction is not aborted. Raises `KafkaAnswered` for an unknown transactional id, or if another transaction has begun
    meanwhile.
    """
    before = describe(brokers, transactional_id) if known is None else known
    owner = (before.producer_id, before.epoch)
    if before.is_ongoing:
        owner = _abort_only(brokers, before)
    _fence(brokers, before, owner)
    return before


def _abort_only(brokers: BrokerConnections, known: TransactionDescription) -> tuple[int, int]:
    """Abort the described transaction (EndTxn). Returns the producer id and epoch that the transactional id has afterwards."""
    what = f"aborting the transaction of {known.transactional_id!r}"
    request = EndTxnRequest(
        transactional_id=known.transactional_id, producer_id=known.producer_id, producer_epoch=known.epoch, committed=False
    )

    def attempt() -> tuple[int, int]:
        connection = brokers.coordinator(TRANSACTION, known.transactional_id)
        # EndTxn 5 raises the producer epoch, and requires transaction.version 2 (KIP-890).
        has_epochs = connection.features.get(TRANSACTION_VERSION, 0) >= EPOCH_BUMP_LEVEL
        answer = brokers.ask(connection, request, None if has_epochs else EPOCH_BUMP_FROM - 1)
        if answer.error_code in ENDED_MEANWHILE:
            message = (
                f"it has ended meanwhile; {command_for('ottla txn describe', known.transactional_id)} shows the id's current state"
            )
            raise KafkaAnswered(what, answer.error_code, message)
        check(what, answer.error_code)
        is_newer = answer.producer_id >= 0
        return (answer.producer_id, answer.producer_epoch) if is_newer else (known.producer_id, known.epoch)

    return brokers.until_final(what, attempt)


def _fence(brokers: BrokerConnections, before: TransactionDescription, owner: tuple[int, int]) -> None:
    """Fence the owner of a transactional id by InitProducerId, like a new producer. Waits until a decided transaction is
    complete."""
    name = before.transactional_id
    request = InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=max(1, before.timeout_ms),
        producer_id=owner[0],
        producer_epoch=owner[1],
    )
    what = f"fencing the producer of {name!r}"

    def attempt() -> None:
        if describe(brokers, name).is_ongoing:
            # InitProducerId would abort the newer transaction that has begun since the description.
            done = "the earlier one was aborted" if before.is_ongoing else "there was no earlier one"
            message = f"the id has begun another transaction meanwhile, which is still open; {done}"
            raise KafkaAnswered(what, Code.INVALID_TXN_STATE, message)
        answer = brokers.ask(brokers.coordinator(TRANSACTION, name), request)
        # The codes `FENCED_ALREADY` mean that a newer producer owns the id, so the earlier producer is fenced.
        if answer.error_code not in FENCED_ALREADY:
            check(what, answer.error_code)

    brokers.until_final(what, attempt)


def find_hanging(
    brokers: BrokerConnections,
    topics: Iterable[str],
    *,
    partition: int | None = None,
    now_ms: int,
    max_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    progress: Callable[[str], None] = lambda topic: None,
) -> list[HangingTransaction]:
    """Find open transactions that no coordinator knows, like ``kafka-transactions find-hanging``.

    A candidate is a transaction without a write for ``max_timeout_ms``. It hangs if no transactional id has its producer id, or if
    the transactional id has no open transaction in the partition. ``progress`` is called with each searched topic.
    """
    candidates: list[OpenTransaction] = []
    for topic in topics:
        indexes = None if partition is None else [partition]
        candidates += [t for t in open_transactions(brokers, topic, indexes) if now_ms - t.last_timestamp_ms > max_timeout_ms]
        progress(topic)
    if not candidates:
        return []
    listed = list_transactions(brokers, producer_ids={t.producer_id for t in candidates})
    ids = {listing.producer_id: listing.transactional_id for listing in listed}
    described = {name: describe_if_known(brokers, name) for name in set(ids.values())}
    hanging = []
    for transaction in candidates:
        transactional_id = ids.get(transaction.producer_id)
        known = None if transactional_id is None else described[transactional_id]
        if known is None or (transaction.topic, transaction.partition) not in known.partitions:
            idle_ms = now_ms - transaction.last_timestamp_ms
            hanging.append(HangingTransaction(transaction=transaction, transactional_id=transactional_id, idle_ms=idle_ms))
    return hanging
