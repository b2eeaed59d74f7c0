"""Compares ottla with other brokers for tests that run without a container engine: ``python -m benchmarks.neighbours``.

Each broker is started a few times on this machine, sent an ApiVersions request, and used with a stock client. docs/comparison.md
has the table.

With ``--transactions``, transactions of Java producers (transaction.version 2, two records in two partitions) are measured instead,
alternately at ottla and at kfake with data on disk, on new directories and after a warm-up. The table has the ratio of each pair of
runs, and the processor time of a transaction.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from rich.console import Console
from rich.progress import track

from benchmarks.brokers import cpu_s, memory_mib, wait_for_metadata
from benchmarks.workloads import Size, create_topic, java_transactions
from ottla import Broker
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient
from tools import go
from tools.kafka import SERVER_JVM, ApacheKafka

READ_TIMEOUT_S = 15.0
MOCK = """
import sys
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored"})
(broker,) = producer.list_topics(timeout=10).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def process(command: list[str]) -> Iterator[tuple[str, int]]:
    """Run a program that prints its broker's address, and ends when its stdin is closed. Yields the address and the process id."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running.stdout.readline().strip(), running.pid
        running.communicate()


@contextlib.contextmanager
def ottla() -> Iterator[tuple[str, int]]:
    with Broker() as broker:
        assert broker.pid is not None
        yield broker.bootstrap, broker.pid


@contextlib.contextmanager
def apache_kafka() -> Iterator[tuple[str, int]]:
    with tempfile.TemporaryDirectory() as directory:
        kafka = ApacheKafka(Path(directory), jvm=SERVER_JVM).start()
        try:
            assert kafka.pid is not None
            yield kafka.bootstrap, kafka.pid
        finally:
            kafka.stop()


Starting = Callable[[], contextlib.AbstractContextManager[tuple[str, int]]]


def _kfake() -> str:
    return str(go.built(Path(__file__).parent / "kfake"))


@contextlib.contextmanager
def kfake_on_disk() -> Iterator[tuple[str, int]]:
    with tempfile.TemporaryDirectory() as directory, process([_kfake(), directory]) as running:
        yield running


def subjects() -> dict[str, Starting]:
    kfake = _kfake()
    return {
        "ottla": ottla,
        "Apache Kafka": apache_kafka,
        "kfake": lambda: process([kfake]),
        "librdkafka's mock": lambda: process([sys.executable, "-c", MOCK]),
    }


def _producer(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(READ_TIMEOUT_S)
    return producer


def _read(bootstrap: str, topic: str, until: Callable[[list[bytes]], bool], **options: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "log_level": 0} | options
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    end_s = time.monotonic() + READ_TIMEOUT_S
    while not until(values) and time.monotonic() < end_s:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        elif message is not None and message.error().fatal():
            break
    consumer.close()
    return values


def _is_last(values: list[bytes]) -> bool:
    return b"last" in values


def hides_aborted_records(bootstrap: str) -> bool:
    producer, topic = _producer(bootstrap, "aborting"), f"t-{uuid.uuid4().hex}"
    for value, end in (("aborted", producer.abort_transaction), ("last", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(READ_TIMEOUT_S)
        end(READ_TIMEOUT_S)
    return _read(bootstrap, topic, _is_last) == [b"last"]


def fences_zombies(bootstrap: str) -> bool:
    zombie, topic = _producer(bootstrap, "fenced"), f"t-{uuid.uuid4().hex}"
    zombie.begin_transaction()
    zombie.produce(topic, "zombie", partition=0)
    zombie.flush(READ_TIMEOUT_S)
    _producer(bootstrap, "fenced")
    try:
        zombie.commit_transaction(READ_TIMEOUT_S)
    except KafkaException:
        return True
    return False


def has_consumer_groups_of_kip_848(bootstrap: str) -> bool:
    producer, topic = Producer({"bootstrap.servers": bootstrap, "log_level": 0}), f"t-{uuid.uuid4().hex}"
    producer.produce(topic, "last", partition=0)
    producer.flush(READ_TIMEOUT_S)
    return _read(bootstrap, topic, _is_last, **{"group.protocol": "consumer"}) == [b"last"]


PROBES = (hides_aborted_records, fences_zombies, has_consumer_groups_of_kip_848)


def apis(bootstrap: str) -> int:
    with RawClient(bootstrap) as client:
        return len(client.call(ApiVersionsRequest(), 0).api_keys)


@dataclass(slots=True, frozen=True)
class Served:
    bootstrap: str
    pid: int


@dataclass(slots=True, frozen=True)
class Rate:
    """Transactions per second, and the broker's processor time for one transaction in ms."""

    per_s: float
    cpu_ms: float


def transaction_rate(start: Starting, producers: int, size: Size) -> Rate:
    with start() as (bootstrap, pid):
        wait_for_metadata(bootstrap)
        served = Served(bootstrap, pid)
        for topic in ("warm-up", "t"):
            create_topic(served, topic)
        java_transactions(served, "warm-up", producers, 0, size.seconds(3))
        run_s, before_s = size.seconds(8), cpu_s(pid)
        per_s, _, _ = java_transactions(served, "t", producers, 0, run_s)
        return Rate(per_s, (cpu_s(pid) - before_s) / (per_s * run_s) * 1_000)


def compare_transactions(console: Console, pairs: int, size: Size) -> None:
    names = ["producers", "kfake on disk (1/s)", "ottla (1/s)", "ratio, median", "ratio, pair by pair"]
    names += ["kfake, processor time (ms)", "ottla, processor time (ms)"]
    console.print(f"| {' | '.join(names)} |")
    console.print("|--:" * len(names) + "|")
    for producers in (1, 8):
        rates: dict[Starting, list[Rate]] = {kfake_on_disk: [], ottla: []}
        for number in track(range(pairs), f"{producers} producers", console=Console(stderr=True), transient=True):
            for start in list(rates) if number % 2 == 0 else list(rates)[::-1]:
                rates[start].append(transaction_rate(start, producers, size))
        theirs, ours = rates.values()
        ratios = [o.per_s / t.per_s for o, t in zip(ours, theirs, strict=True)]
        per_s = [f"{statistics.median(rate.per_s for rate in side):,.0f}" for side in (theirs, ours)]
        cpu_ms = [f"{statistics.median(rate.cpu_ms for rate in side):.2f}" for side in (theirs, ours)]
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        console.print(f"| {producers} | {' | '.join(per_s)} | {statistics.median(ratios):.2f} | {each} | {' | '.join(cpu_ms)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--transactions", action="store_true", help="compare transactions per second with kfake on disk instead")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each broker with --transactions")
    parser.add_argument("--scale", type=float, default=1.0, help="length of these runs; 1.0 is 8 s")
    options = parser.parse_args()
    console = Console(width=160)
    if options.transactions:
        compare_transactions(console, options.pairs, Size(options.scale))
        return 0
    names = ("APIs", "ready (s), median", "resident memory (MiB)", *(probe.__name__.replace("_", " ") for probe in PROBES))
    console.print(f"| | {' | '.join(names)} |")
    console.print("|---" * (len(names) + 1) + "|")
    for name, start in subjects().items():
        ready_s, cells = list[float](), list[str]()
        for number in track(range(options.starts), name, console=Console(stderr=True), transient=True):
            began_s = time.perf_counter()
            with start() as (bootstrap, pid):
                wait_for_metadata(bootstrap)
                ready_s.append(time.perf_counter() - began_s)
                if number == 0:
                    cells = [f"{memory_mib(pid):.0f}", *("yes" if probe(bootstrap) else "no" for probe in PROBES)]
                    cells.insert(0, str(apis(bootstrap)))
        console.print(f"| {name} | {cells[0]} | {statistics.median(ready_s):.2f} | {' | '.join(cells[1:])} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
