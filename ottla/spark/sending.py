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
from ottla.spark.connecting import Address, Connecting
from ottla.spark.encoding import Encoded
from ottla.spark.errors import FENCED, PASSING, BrokerRefused, Fenced, PipelineError
from ottla.spark.transaction import Producer
from ottla.spark.wire import PAUSE_S, ClusterClient
from ottla.storage.names import TopicPartition

MAX_IN_FLIGHT = 4
"""Requests to one broker, each with one batch of a partition: a broker remembers five batches of a producer, and as many may be in
doubt."""
REQUEST_BYTES = 1 << 20
"""Of batches in one request, as max.request.size of Kafka's producers."""
REQUEST_TIMEOUT_MS = 30_000
Batches = dict[TopicPartition, Encoded]
"""What one request holds."""


class _InFlight(msgspec.Struct):
    """A request, and those of its batches that are in doubt. ``sent`` is what its answer is read by."""

    sent: tuple[int, int]
    batches: Batches


class Sender:
    """One connection to each broker that leads a partition. Raises `Fenced`, `BrokerRefused`, `PipelineError`."""

    def __init__(self, connecting: Connecting, producer: Producer) -> None:
        self._cluster = ClusterClient(connecting)
        self._producer = producer
        self._leaders: dict[str, dict[int, Address]] = {}
        self._in_flight: dict[Address, deque[_InFlight]] = {}

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
                except OSError:
                    self._again(of_leader)

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
        except OSError:
            self._again()
            return
        for of_topic in answer.responses:
            for of_partition in of_topic.partition_responses:
                self._note((of_topic.name, of_partition.index), of_partition, flight)
        if flight.batches:
            self._again()
            return
        self._in_flight[address].popleft()
        if not self._in_flight[address]:
            del self._in_flight[address]

    def _note(self, where: TopicPartition, answer: object, flight: _InFlight) -> None:
        """What is not said to be in the log stays in doubt."""
        code = getattr(answer, "error_code", Code.UNKNOWN_SERVER_ERROR)
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            flight.batches.pop(where, None)
        elif code in FENCED:
            raise Fenced(self._producer.transactional_id)
        elif code == Code.MESSAGE_TOO_LARGE:
            raise PipelineError(too_large(where[0], flight.batches[where]))
        elif code not in PASSING:
            raise BrokerRefused(f"writing to {where[0]}-{where[1]}", code, getattr(answer, "error_message", None))

    def _again(self, unsent: Batches | None = None) -> None:
        """A connection or a leader is gone: find them anew, and send what is in doubt once more, in the order of its sequences."""
        flights = [flight for in_flight in self._in_flight.values() for flight in in_flight]
        doubtful = [(where, batch) for flight in flights for where, batch in flight.batches.items()]
        doubtful = sorted([*doubtful, *(unsent or {}).items()], key=lambda item: item[1].sequence)
        deadline = time.monotonic() + self._cluster.timeout_s
        while True:
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
                if time.monotonic() > deadline:
                    topic, partition = doubtful[0][0]
                    raise PipelineError(f"writing to {topic}-{partition}: no broker answers ({error})") from error
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


def too_large(topic: str, batch: Encoded) -> str:
    """A batch of one record is that record, with 100 bytes around it."""
    what = "a record" if batch.records == 1 else f"a batch of {batch.records:,} records"
    return (
        f"{what} of {len(batch.data):,} bytes is more than topic {topic!r} takes: raise the topic's max.message.bytes, or leave"
        " such records out"
    )
