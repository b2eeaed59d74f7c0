"""Verifies with the transaction's coordinator, on any broker, that a partition belongs to a transaction (KIP-890).

Corresponds to Kafka's AddPartitionsToTxnManager. One request to each broker is in flight at a time. Questions about
partitions that accumulate meanwhile are sent together in the next request.

A transaction may end before the coordinator's answer arrives. A batch that is appended afterwards would begin a transaction that no
coordinator ends. So an answer is valid for one append only, and becomes invalid if the leader epoch changes or the partition gets a
marker of the producer (VerificationGuard).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.coordinators.verification import Verification
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.peers.leaders import Peers, leader_of
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError, known_code
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.log import Log

BROKERS_FROM = 4
"""Lowest version of AddPartitionsToTxn that brokers can send (KIP-890)."""
PARTITIONS_PER_REQUEST = 1_000
TIMEOUT_MS = 10_000
GOOD_FOR_MS = 5_000
"""Time in ms for which a coordinator's answer is valid. The append normally follows within a few ms."""
ANSWERS_KEPT = 10_000
"""Maximum number of stored answers. Some answers are never used, because their client has disconnected."""

MAX_WAITING_BATCHES = 10_000
"""Maximum number of batches that wait for one coordinator's broker. Further batches get the retriable COORDINATOR_NOT_AVAILABLE."""

Then = Callable[[KafkaError | None], None]


class _Question(NamedTuple):
    transactional_id: str
    identity: ProducerIdAndEpoch
    partition: TopicPartition
    implicit_add: bool


class _Guard(msgspec.Struct, frozen=True, eq=False):
    """State that must not change before the append: the log, its leader epoch, and the producer's VerificationGuard."""

    log: Log
    leader_epoch: int
    token: object


class _Asked(msgspec.Struct, frozen=True, eq=False):
    question: _Question
    guard: _Guard | None
    asked_ms: float
    then: Then


class _Answer(msgspec.Struct, frozen=True, eq=False):
    """A coordinator's answer that no append has used yet. ``guard`` is None if this broker had no replica when it asked."""

    guard: _Guard | None
    good_until_ms: float
    refusal: KafkaError | None


class CoordinatorVerification:
    """`Verification` in a cluster of several brokers. ``local`` asks the coordinator on this broker."""

    def __init__(
        self,
        kernel: Kernel,
        partitions: Partitions,
        transactions: Transactions,
        state: ClusterState,
        peers: Peers,
        local: Verification,
    ) -> None:
        self._clock = kernel.env
        self._config = kernel.config
        self._counters = kernel.counters
        self._barrier = kernel.barrier
        self._partitions = partitions
        self._transactions = transactions
        self._state = state
        self._peers = peers
        self._local = local
        self._waiting: dict[int, list[_Asked]] = {}
        self._under_way: set[int] = set()
        # The answers that no append has used yet, oldest first.
        self._answers: dict[_Question, _Answer] = {}

    def join(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partition: TopicPartition,
        then: Then,
        *,
        implicit_add: bool,
        has_waited: bool = False,
    ) -> None:
        """Verify one partition (`Verification.join`). After ``then`` was called, the caller's next `join` uses up the stored
        answer."""
        question = _Question(transactional_id, identity, partition, implicit_add)
        answer = self._answers.pop(question, None)
        if has_waited and answer is not None and self._stands(question, answer):
            then(answer.refusal)
            return
        try:
            index = self._transactions.partition_of(transactional_id)
        except KafkaError as error:
            then(error)
            return
        leader = leader_of(self._state, TRANSACTION_TOPIC, index)
        if leader == self._state.node_id:
            self._ask_here(question, index, then, has_waited=has_waited)
        elif self._is_asked_there(implicit_add):
            self._ask_there(leader, [question], then)
        else:
            then(KafkaError(Code.UNSUPPORTED_VERSION) if implicit_add else None)

    def join_all(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        then: Callable[[], None],
        *,
        implicit_add: bool,
    ) -> None:
        """Verify several partitions. A remote coordinator gets one request for all of them; `join` uses its stored answers."""
        try:
            index = self._transactions.partition_of(transactional_id)
        except KafkaError:
            then()
            return
        leader = leader_of(self._state, TRANSACTION_TOPIC, index)
        questions = [_Question(transactional_id, identity, partition, implicit_add) for partition in partitions]
        left = len(questions)

        def answered(_: KafkaError | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        if leader == self._state.node_id:
            self._local.join_all(transactional_id, identity, partitions, lambda: None, implicit_add=implicit_add)
            coordinator = self._partitions.known(TRANSACTION_TOPIC, index)
            if coordinator is None or coordinator.log.high_watermark == coordinator.log.log_end_offset:
                then()
                return
            # The coordinator adds all partitions by one record, so they wait for its commit together.
            for question in questions:
                self._ask_here(question, index, answered, has_waited=False)
        elif not self._is_asked_there(implicit_add):
            then()
        else:
            self._ask_there(leader, questions, answered)

    def _is_asked_there(self, implicit_add: bool) -> bool:
        if implicit_add:
            return self._state.transaction_version > 0
        return self._config.settings.transaction_partition_verification_enable

    def _ask_there(self, leader: int, questions: Collection[_Question], then: Then) -> None:
        """Ask the coordinator on another broker. ``then`` is called once for each question."""
        asked_ms = self._clock.monotonic_ms()
        asked = [_Asked(question, self._guard(question), asked_ms, then) for question in questions]
        waiting = self._waiting.setdefault(leader, [])
        room = max(MAX_WAITING_BATCHES - len(waiting), 0)
        waiting += asked[:room]
        self._refuse(asked[room:], Code.COORDINATOR_NOT_AVAILABLE)
        self._send(leader)

    def _guard(self, question: _Question) -> _Guard | None:
        partition = self._partitions.known(*question.partition)
        if partition is None:
            return None
        log = partition.log
        return _Guard(log, log.leader_epoch, log.producers.verifying(question.identity.producer_id))

    def _stands(self, question: _Question, answer: _Answer) -> bool:
        if self._clock.monotonic_ms() > answer.good_until_ms:
            return False
        partition, guard = self._partitions.known(*question.partition), answer.guard
        return answer.refusal is not None or (
            partition is not None
            and guard is not None
            and partition.log is guard.log
            and partition.log.leader_epoch == guard.leader_epoch
            and partition.log.producers.is_verifying(question.identity.producer_id, guard.token)
        )

    def _keep(self, question: _Question, guard: _Guard | None, refusal: KafkaError | None) -> None:
        """Store the coordinator's answer. The caller repeats its checks, because the state may have changed, and then gets the
        answer from its next `join`."""
        if len(self._answers) >= ANSWERS_KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[question] = _Answer(guard, self._clock.monotonic_ms() + GOOD_FOR_MS, refusal)

    def _ask_here(self, question: _Question, index: int, then: Then, *, has_waited: bool) -> None:
        """Ask the coordinator on this broker, and wait until its record about the partition is committed.

        If the record were lost and the batch were not, no coordinator would end the batch's transaction.
        """
        guard = self._guard(question)

        def answered(refusal: KafkaError | None) -> None:
            coordinator = self._partitions.known(TRANSACTION_TOPIC, index)
            if refusal is not None or coordinator is None or coordinator.log.high_watermark == coordinator.log.log_end_offset:
                then(refusal)
                return

            def committed(is_committed: bool) -> None:
                refused = None if is_committed else KafkaError(Code.NOT_COORDINATOR)
                self._keep(question, guard, refused)
                then(refused)

            self._barrier.answer_after(coordinator.log, coordinator.log.log_end_offset, committed)

        transactional_id, identity, partition, implicit_add = question
        self._local.join(transactional_id, identity, partition, answered, implicit_add=implicit_add, has_waited=has_waited)

    def _send(self, broker_id: int) -> None:
        """Send the waiting questions for a broker, unless a request to it is in flight."""
        waiting = self._waiting.get(broker_id)
        if not waiting or broker_id in self._under_way:
            return
        sent, left = _taken(waiting)
        self._waiting[broker_id] = left
        if not left:
            del self._waiting[broker_id]
        peer = self._peers.peer(broker_id)
        if peer is None:
            self._refuse(sent, Code.COORDINATOR_NOT_AVAILABLE)
            self._send(broker_id)
            return

        def answered(answer: Any) -> None:
            self._under_way.discard(broker_id)
            self._answered(sent, answer)
            self._send(broker_id)

        self._under_way.add(broker_id)
        peer.send(_request(sent), answered, timeout_ms=TIMEOUT_MS, least_version=BROKERS_FROM)

    def _answered(self, sent: list[_Asked], answer: AddPartitionsToTxnResponse | PeerFailure) -> None:
        if isinstance(answer, PeerFailure):
            # Without a response clients get a retriable error, unless the peer does not support the API's version.
            is_unsupported = answer.kind is Failure.UNSUPPORTED_VERSION
            self._refuse(sent, Code.UNSUPPORTED_VERSION if is_unsupported else Code.NETWORK_EXCEPTION)
            return
        if answer.error_code != Code.NONE:
            code = known_code(answer.error_code)
            # As in Kafka, the client does not see that this broker is not authorised.
            self._refuse(sent, Code.INVALID_TXN_STATE if code is Code.CLUSTER_AUTHORIZATION_FAILED else code)
            return
        codes: dict[tuple[str, TopicPartition], Code] = {}
        for transaction in answer.results_by_transaction:
            for topic in transaction.topic_results:
                for result in topic.results_by_partition:
                    where = (topic.name, result.partition_index)
                    codes[transaction.transactional_id, where] = known_code(result.partition_error_code)
        for asked in sent:
            code = codes.get((asked.question.transactional_id, asked.question.partition), Code.NETWORK_EXCEPTION)
            # OPERATION_NOT_ATTEMPTED: another partition in the request was refused; this partition can be retried.
            self._answer(asked, Code.NETWORK_EXCEPTION if code is Code.OPERATION_NOT_ATTEMPTED else code)

    def _refuse(self, sent: list[_Asked], code: Code) -> None:
        for asked in sent:
            self._answer(asked, code)

    def _answer(self, asked: _Asked, code: Code) -> None:
        self._counters.verification_ms.add(self._clock.monotonic_ms() - asked.asked_ms)
        refusal = None
        if code is not Code.NONE:
            self._counters.verification_failures += 1
            refusal = KafkaError(code, "the transaction coordinator did not confirm that the partition is part of the transaction")
        self._keep(asked.question, asked.guard, refusal)
        asked.then(refusal)


def _taken(waiting: list[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
    """Return the questions for the next request, which names each transaction once (to verify or to add), and the rest."""
    purposes: dict[str, tuple[ProducerIdAndEpoch, bool]] = {}
    sent: list[_Asked] = []
    left: list[_Asked] = []
    for asked in waiting:
        question = asked.question
        purpose = (question.identity, question.implicit_add)
        is_in = len(sent) < PARTITIONS_PER_REQUEST and purposes.setdefault(question.transactional_id, purpose) == purpose
        (sent if is_in else left).append(asked)
    return sent, left


def _request(sent: list[_Asked]) -> AddPartitionsToTxnRequest:
    transactions: dict[str, tuple[_Question, dict[str, dict[int, None]]]] = {}
    for asked in sent:
        question = asked.question
        _, topics = transactions.setdefault(question.transactional_id, (question, {}))
        topic, index = question.partition
        topics.setdefault(topic, {})[index] = None
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=question.identity.producer_id,
                producer_epoch=question.identity.epoch,
                verify_only=not question.implicit_add,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in topics.items()],
            )
            for transactional_id, (question, topics) in transactions.items()
        ]
    )
