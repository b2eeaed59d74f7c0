"""What a control port costs a broker while nobody uses it: ``python -m benchmarks.control [--pairs 5]``.

Each pair is two new brokers, one without a control port and one with it, no fault and a history that nobody reads. Both get the
same transactions over sockets, a few hundred in turn, and the processor time of each process is set against their number. Two
brokers of one kind differ by some percent as well, because their memory lies elsewhere: ``--null`` compares two without a control
port, which shows by how much.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ottla import Broker
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.raw import RawClient, retry

WARM_UP = 300
SLICE = 200
"""How many transactions one broker gets before it is the other's turn."""
MICROSECONDS = 1_000_000


def cpu_s(pid: int) -> float:
    """The processor time of a process, user and system, in nanoseconds' resolution (`clock_getcpuclockid` of the C library)."""
    return time.clock_gettime((~pid << 3) | 2)


class Producer:
    """A transactional producer without a client library: request, answer, next request."""

    def __init__(self, bootstrap: str, name: str, version: int) -> None:
        self._connection = RawClient(bootstrap, "bench")
        self._id = f"bench-{name}-{version}"
        self._version = version
        # This makes the coordinator's topic.
        self._connection.call(FindCoordinatorRequest(key=self._id, key_type=1), 3)
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        answer = retry(lambda: self._connection.call(request, 5 if version == 2 else 4), lambda answer: answer.error_code == 0)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequence = 0

    def _who(self) -> dict[str, int]:
        return {"producer_id": self._producer_id, "producer_epoch": self._epoch}

    def _produce(self) -> None:
        batch = build_batch([(None, b"x" * 100)], 0, **self._who(), base_sequence=self._sequence, transactional=True)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(batch))])]
        request = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=30_000, topic_data=data)
        answer = self._connection.call(request, 12 if self._version == 2 else 11)
        assert answer.responses[0].partition_responses[0].error_code == 0
        self._sequence += 1

    def _add(self) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        answer = self._connection.call(request, 3)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0

    def _end(self) -> None:
        request = EndTxnRequest(transactional_id=self._id, **self._who(), committed=True)
        answer = self._connection.call(request, 5 if self._version == 2 else 4)
        assert answer.error_code == 0
        if self._version == 2:
            self._sequence = 0 if answer.producer_epoch != self._epoch else self._sequence
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    def transaction(self) -> None:
        if self._version < 2:
            self._add()
        self._produce()
        self._end()

    def empty_transaction(self) -> None:
        self._add()
        self._end()


SHAPES: dict[str, tuple[int, Callable[[Producer], None]]] = {
    "one record, transaction.version 2": (2, Producer.transaction),
    "one record, older clients": (1, Producer.transaction),
    "no record, older clients": (1, Producer.empty_transaction),
}


def started(*, is_steered: bool) -> Broker:
    broker = Broker()
    broker._is_steered = is_steered
    broker.start()
    with RawClient(broker.bootstrap) as connection:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        answer = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_code == 0
    return broker


def slice_us(broker: Broker, producer: Producer, transaction: Callable[[Producer], None]) -> float:
    """The broker's processor time for one transaction, in microseconds."""
    assert broker.pid is not None
    began_s = cpu_s(broker.pid)
    for _ in range(SLICE):
        transaction(producer)
    return (cpu_s(broker.pid) - began_s) / SLICE * MICROSECONDS


def pair(slices: int, *, is_steered: bool, advance: Callable[[], None]) -> dict[str, tuple[float, float]]:
    """For each shape what a transaction costs without a control port and with it, each the median of its slices."""
    first, second = started(is_steered=False), started(is_steered=is_steered)
    costs = {}
    for shape, (version, transaction) in SHAPES.items():
        subjects = [(broker, Producer(broker.bootstrap, shape, version), list[float]()) for broker in (first, second)]
        for _, producer, _ in subjects:
            for _ in range(WARM_UP):
                transaction(producer)
        for number in range(slices):
            for broker, producer, measured in subjects if number % 2 else subjects[::-1]:
                measured.append(slice_us(broker, producer, transaction))
        costs[shape] = (statistics.median(subjects[0][2]), statistics.median(subjects[1][2]))
        advance()
    for broker in (first, second):
        broker.close()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--slices", type=int, default=20, help=f"of {SLICE} transactions each")
    parser.add_argument("--null", action="store_true", help="no control port on either side")
    options = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        task = progress.add_task("pairs", total=options.pairs * len(SHAPES))
        advance = lambda: progress.advance(task)  # noqa: E731
        pairs = [pair(options.slices, is_steered=not options.null, advance=advance) for _ in range(options.pairs)]
    title = "processor time of a broker for one transaction" + (", no control port on either side" if options.null else "")
    table = Table("", "without (us)", "with (us)", "ratio, median", "pair by pair", title=title, title_justify="left")
    for shape in SHAPES:
        without, idle = zip(*(costs[shape] for costs in pairs), strict=True)
        ratios = [w / n for n, w in zip(without, idle, strict=True)]
        each = " ".join(f"{ratio:.3f}" for ratio in ratios)
        table.add_row(
            shape,
            f"{statistics.median(without):.0f}",
            f"{statistics.median(idle):.0f}",
            f"{statistics.median(ratios):.3f}",
            each,
        )
    console.print(table)


if __name__ == "__main__":
    main()
