"""Measures the cost of an unused control API and console: ``python -m benchmarks.control [--rounds 14]``.

Each round starts four brokers at the same time: two without control API, one with the control API, one with the console. All get
the same transactions, a few hundred at a time in random order. The processor time of each broker is divided by the mean of the two
brokers without control API. Equal processes, too, differ by some percent because of their memory layout; the ratio of these two
brokers shows this difference.

With ``--stock`` stock clients send the transactions of ``benchmarks.compare`` to one broker after the other, and the table has the
number of committed transactions per second.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.brokers import cpu_s
from benchmarks.workloads import Size, transactions
from ottla.client.ready_line import read_ready_file
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.support import oracle
from tests.support.raw_client import RawClient

WARM_UP = 300
SLICE = 200
"""Number of transactions that a broker gets at a time."""
MICROSECONDS = 1_000_000
START_TIMEOUT_S = 30.0
STOCK_SCALE = 0.3
"""Fraction of the running time of ``benchmarks.compare``: 2.4 s per measurement."""
WITHOUT = ("without", "without, too")
KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(WITHOUT, ()),
    "control port": ("--control-port", "0"),
    "console": ("--console",),
}
"""The options of ``ottla serve`` for each kind of broker."""


class Producer:
    """A transactional producer without a client library. It sends one request at a time."""

    def __init__(self, bootstrap: str, name: str, version: int) -> None:
        self._connection = RawClient(bootstrap, "bench")
        self._id = f"bench-{name}-{version}"
        self._version = version
        # FindCoordinator creates __transaction_state.
        self._connection.call(FindCoordinatorRequest(key=self._id, key_type=1), 3)
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        answer = oracle.ready(self._connection, request, 5 if version == 2 else 4, lambda answer: [answer.error_code])
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


@dataclass(slots=True, frozen=True, kw_only=True)
class Served:
    bootstrap: str
    pid: int


@contextmanager
def served(directory: Path, options: tuple[str, ...]) -> Iterator[Served]:
    """Start a broker with a topic ``t``."""
    ready = directory / "ready.json"
    arguments = ["--listen", "127.0.0.1:0", "--data-dir", str(directory / "data"), "--ready-file", str(ready)]
    command = [sys.executable, "-m", "ottla", "serve", *arguments, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            ends_s = time.monotonic() + START_TIMEOUT_S
            while not ready.exists():
                assert time.monotonic() < ends_s and process.poll() is None, "the broker did not start"
                time.sleep(0.01)
            bootstrap = next(iter(read_ready_file(ready)["listening"].values()))
            with RawClient(bootstrap) as connection:
                topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
                answer = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
                assert answer.topics[0].error_code == 0
            yield Served(bootstrap=bootstrap, pid=process.pid)
        finally:
            process.terminate()


def slice_us(pid: int, producer: Producer, transaction: Callable[[Producer], None]) -> float:
    """Return the broker's processor time for one transaction, in microseconds."""
    began_s = cpu_s(pid)
    for _ in range(SLICE):
        transaction(producer)
    return (cpu_s(pid) - began_s) / SLICE * MICROSECONDS


@contextmanager
def all_served() -> Iterator[dict[str, Served]]:
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-")))
        brokers = {}
        for number, (kind, options) in enumerate(KINDS.items()):
            directory = root / str(number)
            directory.mkdir()
            brokers[kind] = stack.enter_context(served(directory, options))
        yield brokers


def played(slices: int, turns: random.Random, advance: Callable[[], None]) -> dict[str, dict[str, float]]:
    """Return the median processor time of a transaction in microseconds, for each shape of transaction and kind of broker."""
    costs = {}
    with all_served() as brokers:
        for shape, (version, transaction) in SHAPES.items():
            producers = {kind: Producer(broker.bootstrap, shape, version) for kind, broker in brokers.items()}
            for producer in producers.values():
                for _ in range(WARM_UP):
                    transaction(producer)
            measured: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for _ in range(slices):
                for kind in turns.sample(list(KINDS), len(KINDS)):
                    measured[kind].append(slice_us(brokers[kind].pid, producers[kind], transaction))
            costs[shape] = {kind: statistics.median(each) for kind, each in measured.items()}
            advance()
    return costs


def stock(turns: random.Random, advance: Callable[[], None]) -> dict[str, dict[str, float]]:
    """Return the transactions per second of stock clients, for each measurement of ``benchmarks.compare`` and kind of broker."""
    rates: dict[str, dict[str, float]] = {}
    with all_served() as brokers:
        for kind in turns.sample(list(KINDS), len(KINDS)):
            for name, sample in transactions(brokers[kind], Size(STOCK_SCALE)).items():
                if name.startswith("transactions"):
                    rates.setdefault(name, {})[kind] = sample.value
            advance()
    return rates


def ratios(figures: list[dict[str, float]], kind: str) -> list[float]:
    """Return for each round the ratio to the mean of the brokers without control API. The first of these brokers is compared with
    the second."""
    if kind == WITHOUT[0]:
        return [one[kind] / one[WITHOUT[1]] for one in figures]
    return [one[kind] / statistics.mean(one[without] for without in WITHOUT) for one in figures]


def shown(values: list[float]) -> str:
    """Format the median and the quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.3f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=14, help="two at least")
    parser.add_argument("--slices", type=int, default=20, help=f"of {SLICE} transactions each")
    parser.add_argument("--seed", type=int, default=1, help="of the turns")
    parser.add_argument("--stock", action="store_true", help="stock clients, how many transactions are committed in a second")
    options = parser.parse_args()
    console, turns = Console(), random.Random(options.seed)
    with Progress(console=console) as progress:
        task = progress.add_task("rounds", total=options.rounds * (len(KINDS) if options.stock else len(SHAPES)))
        advance = lambda: progress.advance(task)  # noqa: E731
        rounds = [stock(turns, advance) if options.stock else played(options.slices, turns, advance) for _ in range(options.rounds)]
    title, unit = (
        ("transactions of stock clients", "1/s") if options.stock else ("a broker's processor time for one transaction", "us")
    )
    table = Table(title=f"{title}, as ratios: median (middle half)", title_justify="left")
    for heading in ("", f"without ({unit})", "two without", *(kind for kind in KINDS if kind not in WITHOUT)):
        table.add_column(heading)
    for name in rounds[0]:
        figures = [one[name] for one in rounds]
        without = statistics.median(one[kind] for one in figures for kind in WITHOUT)
        compared = [kind for kind in KINDS if kind != WITHOUT[1]]
        table.add_row(name, f"{without:,.0f}", *(shown(ratios(figures, kind)) for kind in compared))
    console.print(table)


if __name__ == "__main__":
    main()
