"""Sends the batches of a shared transaction to the leaders of their partitions, with several requests in flight.

If a connection breaks, unanswered batches are sent again with the same sequences, so that the broker recognises the retry.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.remedies import RETRIABLE, name_of
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.cluster.client import PAUSE_S
from ottla.spark.errors import BrokerRefused, MustAbort, PipelineError, refusal
from ottla.spark.rows.encoding import Encoded
from ottla.spark.sink.transaction import SharedProducer

MAX_IN_FLIGHT = 4
"""Maximum number of requests in flight per broker, each with at most one batch of a partition. It is below five, because a broker
recognises retries only of a producer's last five batches."""
REQUEST_BYTES = 1 << 20
"""Maximum size of the batches in one request, in bytes, as in Kafka's producer (max.request.size)."""
REQUEST_TIMEOUT_MS = 30_000
Batches = dict[TopicPartition, Encoded]


_PASSING = RETRIABLE | {Code.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors after which a batch is sent again. A leader may not know yet a new partition that is already in the metadata."""


class _Doubt(msgspec.Struct):
    """A batch that was sent, but may not be in the log: the deadline of its retries, and the last error."""

    until_s: float
    why: str


class _InFlight(msgspec.Struct):
    """A request in flight, and its batches without a final response. ``sent`` is the argument for `BrokerConnection.receive`."""

    sent: tuple[int, int]
    batches: Batches


class Sender:
    """Sends batches, with one connection to each leader. Raises `PipelineError` and `MustAbort`."""

    def __init__(self, cluster: BrokerConnections, producer: SharedProducer) -> None:
        self._cluster = cluster
        self._producer = producer
        self._leaders: dict[str, dict[int, BrokerNode]] = {}
        self._in_flight: dict[BrokerNode, deque[_InFlight]] = {}
        self._doubts: dict[tuple[TopicPartition, int], _Doubt] = {}
        """Batches that were or will be sent again, by partition and sequence."""

    def leader(self, topic: str, partition: int) -> BrokerNode:
        if partition not in self._leaders.get(topic, {}):
            # The lookup of a leader uses the same connections, so all pending responses must be read first.
            self.settle()
            self._leaders[topic] = self._cluster.known_leader_nodes(topic, partition)
        leader = self._leaders[topic].get(partition)
        if leader is None:
            raise PipelineError(f"topic {topic!r} has no partition {partition}: it has {len(self._leaders[topic])}")
        return leader

    def send(self, batches: Iterable[tuple[TopicPartition, Encoded]]) -> None:
        """Send batches. The batches of a partition must be in the order of their sequences."""
        for request in _requests(batches):
            for node, of_leader in self._by_leader(request):
                while len(self._in_flight.get(node, ())) >= MAX_IN_FLIGHT:
                    self._receive(node)
                try:
                    self._send_to(node, of_leader)
                except OSError as error:
                    self._again(str(error), of_leader)

    def settle(self) -> None:
        """Wait until all sent batches are in the brokers' logs."""
        while self._in_flight:
            self._receive(next(iter(self._in_flight)))

    def close(self) -> None:
        self._cluster.close()

    def _by_leader(self, batches: Batches) -> list[tuple[BrokerNode, Batches]]:
        by_leader: dict[BrokerNode, Batches] = {}
        for where, batch in batches.items():
            by_leader.setdefault(self.leader(*where), {})[where] = batch
        return list(by_leader.items())

    def _send_to(self, node: BrokerNode, batches: Batches) -> None:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), batch in batches.items():
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=batch.data))
        request = ProduceRequest(
            transactional_id=self._producer.transactional_id,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic, partition_data=data) for topic, data in topics.items()],
        )
        sent = self._cluster.node(node).send(request)
        self._in_flight.setdefault(node, deque()).append(_InFlight(sent, dict(batches)))

    def _receive(self, node: BrokerNode) -> None:
        flight = self._in_flight[node][0]
        try:
            answer = self._cluster.node(node).receive(flight.sent)
        except OSError as error:
            self._again(str(error))
            return
        for of_topic in answer.responses:
            for of_partition in of_topic.partition_responses:
                self._note((of_topic.name, of_partition.index), of_partition, flight)
        if flight.batches:
            self._again("the response does not contain every batch")
            return
        self._in_flight[node].popleft()
        if not self._in_flight[node]:
            del self._in_flight[node]

    def _note(self, where: TopicPartition, answer: object, flight: _InFlight) -> None:
        """A batch stays in doubt unless the response says that it is in the log."""
        code = getattr(answer, "error_code", Code.UNKNOWN_SERVER_ERROR)
        batch = flight.batches.get(where)
        if batch is None:
            return
        doubt = self._doubts.get((where, batch.sequence))
        if code == Code.NONE or (code == Code.DUPLICATE_SEQUENCE_NUMBER and doubt is not None):
            del flight.batches[where]
            self._doubts.pop((where, batch.sequence), None)
        elif code == Code.DUPLICATE_SEQUENCE_NUMBER:
            # The task has sent the batch only once, and no other task may write to the partition in this epoch. So the duplicate is
            # from another client with the task's producer id.
            raise MustAbort(
                f"{where[0]}-{where[1]} has a batch of sequence {batch.sequence} that this task has sent only once: another client"
                " has used its producer id"
            )
        elif code == Code.MESSAGE_TOO_LARGE:
            raise PipelineError(too_large(where[0], batch.records, len(batch.data)))
        elif code in _PASSING:
            self._doubt(where, batch, name_of(code))
        else:
            refused = BrokerRefused(f"writing to {where[0]}-{where[1]}", code, getattr(answer, "error_message", None))
            raise refusal(self._producer.transactional_id, refused)

    def _doubt(self, where: TopicPartition, batch: Encoded, why: str) -> _Doubt:
        """Return the `_Doubt` of a batch. Its deadline counts from the batch's first failure."""
        key = (where, batch.sequence)
        doubt = self._doubts.get(key)
        if doubt is None:
            doubt = self._doubts[key] = _Doubt(time.monotonic() + self._cluster.timeout_s, why)
        elif why:
            doubt.why = why
        return doubt

    def _again(self, why: str, unsent: Batches | None = None) -> None:
        """Look up the leaders after a connection or leader was lost, and send the unanswered batches again in the order of their
        sequences."""
        flights = [flight for in_flight in self._in_flight.values() for flight in in_flight]
        doubtful = [(where, batch) for flight in flights for where, batch in flight.batches.items()]
        doubtful = sorted([*doubtful, *(unsent or {}).items()], key=lambda item: item[1].sequence)
        while True:
            for where, batch in doubtful:
                # Prefer a broker's error for the batch, which is more precise than the loss of a connection.
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
                    self._leaders[topic] = self._cluster.leader_nodes(topic)
                for request in _requests(doubtful):
                    for node, of_leader in self._by_leader(request):
                        self._send_to(node, of_leader)
            except OSError as error:
                why = str(error)
                for where, batch in doubtful:
                    self._doubt(where, batch, why)
            else:
                return


def _requests(batches: Iterable[tuple[TopicPartition, Encoded]]) -> Iterator[Batches]:
    """Group batches into as few requests as possible. A request has at most one batch of a partition
    (ProduceRequest.validateRecords)."""
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
    """Return the error text for a batch that is too large. A batch of one record is about 100 bytes larger
    than the record."""
    what = "a record" if records == 1 else f"a batch of {records:,} records"
    return (
        f"{what} of {size_bytes:,} bytes is larger than topic {topic!r} allows: raise the topic's max.message.bytes, or leave"
        " such records out"
    )
