"""Sending batches to brokers that refuse requests, disappear or lose state. The tests supply the responses, without a broker."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from ottla.client.cluster import BrokerNode
from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.spark.errors import BrokerRefused, Fenced, MustAbort, PipelineError
from ottla.spark.rows.encoding import Encoded
from ottla.spark.sink import batch_sender as sending
from ottla.spark.sink.batch_sender import Sender
from ottla.spark.sink.transaction import SharedProducer

LEADER = BrokerNode(node_id=1, host="broker", port=9092)


class Leader:
    """Leads all partitions, and answers each batch of a request with the next of ``codes``. An OSError closes the connection."""

    def __init__(self, *codes: int | OSError) -> None:
        self.codes = deque(codes)
        self.sent: list[list[tuple[int, int]]] = []
        self.timeout_s = 30.0
        self._asked: deque[Any] = deque()

    def node(self, node: BrokerNode) -> Leader:
        return self

    def leader_nodes(self, topic: str) -> dict[int, BrokerNode]:
        return {0: LEADER, 1: LEADER}

    def known_leader_nodes(self, topic: str, partition: int) -> dict[int, BrokerNode]:
        return self.leader_nodes(topic)

    def send(self, request: Any) -> tuple[int, int]:
        self._asked.append(request)
        return 0, 12

    def receive(self, sent: tuple[int, int]) -> ProduceResponse:
        responses = []
        for topic in self._asked.popleft().topic_data:
            answers = []
            for data in topic.partition_data:
                code = self.codes.popleft() if len(self.codes) > 1 else self.codes[0]
                if isinstance(code, OSError):
                    raise code
                answers.append(PartitionProduceResponse(index=data.index, error_code=code))
            responses.append(TopicProduceResponse(topic.name, partition_responses=answers))
        return ProduceResponse(responses=responses)

    def close(self) -> None:
        self._asked.clear()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sending, "time", clock)
    return clock


def sender(leader: Leader) -> Sender:
    cluster: Any = leader
    return Sender(cluster, SharedProducer("shop", 1, 0))


def write(leader: Leader, *batches: tuple[int, int]) -> None:
    """Send batches, given by partition and sequence number, and wait for their responses."""
    of = sender(leader)
    of.send([(("t", partition), Encoded(sequence=sequence, records=1, data=b"x")) for partition, sequence in batches])
    of.settle()
    assert not of._doubts


@pytest.mark.parametrize(
    "code",
    [
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.KAFKA_STORAGE_ERROR,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        ConnectionError("gone"),
    ],
)
def test_batch_sender_retries_retriable_errors(clock: Clock, code: int | OSError) -> None:
    write(Leader(code, code, Code.NONE), (0, 0), (0, 1))
    assert clock.now_s < 1


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, r"writing to t-0: not done within 30 s \(NOT_LEADER_OR_FOLLOWER\)"),
        (ConnectionError("gone"), r"writing to t-0: not done within 30 s \(gone\)"),
    ],
)
def test_batch_sender_raises_a_persistent_error_at_the_deadline(clock: Clock, code: int | OSError, line: str) -> None:
    with pytest.raises(PipelineError, match=line):
        write(Leader(code), (0, 0))
    assert clock.now_s == pytest.approx(30, abs=1)


def test_every_batch_of_the_batch_sender_has_its_own_deadline(clock: Clock) -> None:
    """The time that one batch spends on retries does not shorten the deadline of the next batch."""
    codes: list[int] = [Code.NOT_ENOUGH_REPLICAS] * 400
    of = sender(Leader(*codes, Code.NONE, *codes, Code.NONE))
    for sequence in range(2):
        of.send([(("t", 0), Encoded(sequence=sequence, records=1, data=b"x"))])
        of.settle()
    assert clock.now_s == pytest.approx(40, abs=1)


@pytest.mark.parametrize(
    ("code", "kind", "line"),
    [
        (Code.PRODUCER_FENCED, Fenced, "another pipeline uses 'shop'"),
        (Code.TRANSACTION_ABORTABLE, MustAbort, "writing to t-0: TRANSACTION_ABORTABLE"),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, MustAbort, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (Code.TOPIC_AUTHORIZATION_FAILED, BrokerRefused, "TOPIC_AUTHORIZATION_FAILED"),
        (Code.MESSAGE_TOO_LARGE, PipelineError, "a record of 1 bytes is larger than topic 't' allows"),
        (32_000, BrokerRefused, "error 32000"),
    ],
)
def test_batch_sender_raises_non_retriable_errors_at_once(clock: Clock, code: int, kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=line):
        write(Leader(code), (0, 0))
    assert clock.now_s == 0


def test_batch_sender_takes_a_duplicate_sequence_error_after_a_retry_as_success(clock: Clock) -> None:
    write(Leader(ConnectionError("gone"), Code.DUPLICATE_SEQUENCE_NUMBER), (0, 0))


def test_batch_sender_raises_a_duplicate_sequence_error_without_a_retry(clock: Clock) -> None:
    """Another writer of this transaction used the sequence number: its batch is stored, and this task's batch is not."""
    with pytest.raises(MustAbort, match="t-0 has a batch of sequence 0 that this task has sent only once"):
        write(Leader(Code.DUPLICATE_SEQUENCE_NUMBER), (0, 0))
