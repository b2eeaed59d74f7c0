"""Batches of one shared transaction to the brokers that lead their partitions, several requests in flight.

Whatever went out and was not answered when a connection broke goes out again with the same sequences: the broker knows what it has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.remedies import RETRIABLE, name_of
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.connecting import Address, Connecting
from ottla.spark.encoding import Encoded
from ottla.spark.errors import MustAbort, PipelineError, refusal
from ottla.spark.transaction import Producer
from ottla.spark.wire import PAUSE_S, ClusterClient

MAX_IN_FLIGHT = 4
"""Requests to one broker, each with one batch of a partition: a broker remembers five batches of a producer, and as many may be in
doubt."""
REQUEST_BYTES = 1 << 20
"""Of batches in one request, as max.request.size of Kafka's producers."""
REQUEST_TIMEOUT_MS = 30_000
Batches = dict[TopicPartition, Encoded]
"""What one request holds."""


_PASSING = RETRIABLE | {Code.UNKNOWN_TOPIC_OR_PARTITION}
"""A leader may not have heard yet of a partition that the metadata of its topic has."""


class _Doubt(msgspec.Struct):
    """Of a batch that was sent and is not known to be in the log: until when it is sent again, and what was said of it last."""

    until_s: float
    why: str


class _InFlight(msgspec.Struct):
    """A request, and those of its batches that are in doubt. ``sent`` is what its answer is read by."""

    sent: tuple[int, int]
    batches: Batches


class Sender:
    """One connection to each broker that leads a partition. Raises `PipelineError` and `MustAbort`."""

    def __init__(self, connecting: Connecting, producer: Producer) -> None:
        self._cluster = ClusterClient(connecting)
        self._producer = producer
        self._leaders: dict[str, dict[int, Address]] = {}
        self._in_flight: dict[Address, deque[_InFlight]] = {}
        self._doubts: dict[tuple[TopicPartition, int], _Doubt] = {}
        """By partition and sequence, of the batches that were sent more than once."""

    def leader(self, topic: str, partition: int) -> Address:
        if topic not in self._leaders:
            # The connections are for one thing at a time.
            self.settle()
            self._leaders[topic] = self._cluster.leaders(topic)
        leader = self._leaders[topic].get(partition)
        if leader is None:
            raise PipelineError(f"topic {topic!r} has no partition {partition}: it has {len(self._leaders[topic])}")
        return leader

    def send(self, batches: Iterable[tuple[TopicPartition, Encoded]]) -> None:
        """Batches of one partition in the order of their sequences."""
        for request in _requests(batches):
            for address, of_leader in self._by_leader(request):
                while len(self._in_flight.get(address, ())) >= MAX_IN_FLIGHT:
                    self._receive(address)
                try:
                    self._send_to(address, of_leader)
                except OSError as error:
                    self._again(str(error), of_leader)

    def settle(self) -> None:
        """Everything that was sent is in the broker's log when this returns."""
        while self._in_flight:
            self._receive(next(iter(self._in_flight)))

    def close(self) -> None:
        self._cluster.close()

    def _by_leader(self, batches: Batches) -> list[tuple[Address, Batches]]:
        by_leader: dict[Address, Batches] = {}
        for where, batch in batches.items():
            by_leader.setdefault(self.leader(*where), {})[where] = batch
        return list(by_leader.items())

    def _send_to(self, address: Address, batches: Batches) -> None:
        """Raises OSError."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), batch in batches.items():
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=batch.data))
        request = ProduceRequest(
            transactional_id=self._producer.transactional_id,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic, partition_data=data) for topic, data in topics.items()],
        )
        sent = self._cluster.connection(address).send(request)
        self._in_flight.setdefault(address, deque()).append(_InFlight(sent, dict(batches)))

    def _receive(self, address: Address) -> None:
        """Take the answer to the oldest request that a broker was sent."""
        flight = self._in_flight[address][0]
        try:
            answer = self._cluster.connection(address).receive(flight.sent)
        except OSError as error:
            self._again(str(error))
            return
        for of_topic in answer.responses:
            for of_partition in of_topic.partition_responses:
                self._note((of_topic.name, of_partition.index), of_partition, flight)
        if flight.batches:
            self._again("the broker has not said how a batch fared")
            return
        self._in_flight[address].popleft()
        if not self._in_flight[address]:
            del self._in_flight[address]

    def _note(self, where: TopicPartition, answer: object, flight: _InFlight) -> None:
        """What is not said to be in the log stays in doubt."""
        code = getattr(answer, "error_code", Code.UNKNOWN_SERVER_ERROR)
        batch = flight.batches.get(where)
        if batch is None:
            return
        doubt = self._doubts.get((where, batch.sequence))
        if code == Code.NONE or (code == Code.DUPLICATE_SEQUENCE_NUMBER and doubt is not None):
            del flight.batches[where]
            self._doubts.pop((where, batch.sequence), None)
        elif code == Code.DUPLICATE_SEQUENCE_NUMBER:
            # Sequences begin at 0 in an epoch that is this transaction's alone, and a partition has one task.
            raise MustAbort(
                f"{where[0]}-{where[1]} has a batch of sequence {batch.sequence} that this task has sent once only: somebody else"
                " has written in its transaction"
            )
        elif code == Code.MESSAGE_TOO_LARGE:
            raise PipelineError(too_large(where[0], batch.records, len(batch.data)))
        elif code in _PASSING:
            self._doubt(where, batch, name_of(code))
        else:
            what = f"writing to {where[0]}-{where[1]}"
            raise refusal(self._producer.transactional_id, what, code, getattr(answer, "error_message", None))

    def _doubt(self, where: TopicPartition, batch: Encoded, why: str) -> _Doubt:
        """A batch has one deadline, from its first failure on."""
        key = (where, batch.sequence)
        doubt = self._doubts.get(key)
        if doubt is None:
            doubt = self._doubts[key] = _Doubt(time.monotonic() + self._cluster.timeout_s, why)
        elif why:
            doubt.why = why
        return doubt

    def _again(self, why: str, unsent: Batches | None = None) -> None:
        """A connection or a leader is gone: find them anew, and send what is in doubt once more, in the order of its sequences."""
        flights = [flight for in_flight in self._in_flight.values() for flight in in_flight]
        doubtful = [(where, batch) for flight in flights for where, batch in flight.batches.items()]
        doubtful = sorted([*doubtful, *(unsent or {}).items()], key=lambda item: item[1].sequence)
        while True:
            for where, batch in doubtful:
                # What a broker has said of a batch says more than that others were sent again with it.
                doubt = self._doubts.get((where, batch.sequence)) or self._doubt(where, batch, why)
                if time.monotonic() > doubt.until_s:
                    raise PipelineError(
                        f"writing to {where[0]}-{where[1]}: not done within {self._cluster.timeout_s:g} s ({doubt.why})"
                    )
            self._in_flight.clear()
            self._cluster.close()
            time.sleep(PAUSE_S)
            try:
                for topic in {where[0] for where, _ in doubtful}:
                    self._leaders[topic] = self._cluster.leaders(topic)
                for request in _requests(doubtful):
                    for address, of_leader in self._by_leader(request):
                        self._send_to(address, of_leader)
            except OSError as error:
                why = str(error)
                for where, batch in doubtful:
                    self._doubt(where, batch, why)
            else:
                return


def _requests(batches: Iterable[tuple[TopicPartition, Encoded]]) -> Iterator[Batches]:
    """As few as may be: a request has one batch of a partition (ProduceRequest.validateRecords)."""
    request: Batches = {}
    size_bytes = 0
    for where, batch in batches:
        if request and (where in request or size_bytes + len(batch.data) > REQUEST_BYTES):
            yield request
            request, size_bytes = {}, 0
        request[where] = batch
        size_bytes += len(batch.data)
    if request:
        yield request


def too_large(topic: str, records: int, size_bytes: int) -> str:
    """A batch of one record is that record, with 100 bytes around it."""
    what = "a record" if records == 1 else f"a batch of {records:,} records"
    return (
        f"{what} of {size_bytes:,} bytes is more than topic {topic!r} takes: raise the topic's max.message.bytes, or leave"
        " such records out"
    )
