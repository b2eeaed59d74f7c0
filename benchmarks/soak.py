"""Checks that a broker's memory does not grow under steady load: ``python -m benchmarks.soak [--minutes 30]``.

Stock clients write transactions, join and leave a group, create and delete topics, connect briefly, and disconnect during long
polls. The amount of live state stays the same, so the resident memory must stay the same: the exit code is 1 if a minute's median
differs from the median of all minutes by more than `TOLERANCE`. The first minutes, in which the broker fills its caches, do not
count.
"""

from __future__ import annotations

import argparse
import itertools
import math
import socket
import statistics
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.brokers import cpu_s, memory_mib
from ottla import Broker
from ottla.protocol.codec import request_frame
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest

SAMPLE_S = 1.0
TOLERANCE = 0.05
PARTITIONS = 6
TOPIC = "soak"
SETTINGS = {
    "log.segment.bytes": 4 << 20,
    "log.retention.bytes": 8 << 20,
    "log.retention.check.interval.ms": 5_000,
    "log.initial.task.delay.ms": 5_000,
    "log.segment.delete.delay.ms": 1_000,
    "producer.id.expiration.ms": 60_000,
    "producer.id.expiration.check.interval.ms": 5_000,
    "offsets.retention.check.interval.ms": 30_000,
    "log.cleaner.backoff.ms": 5_000,
    "group.initial.rebalance.delay.ms": 0,
}
"""Short retention times, so that data is created and removed many times in half an hour."""

Use = Callable[["Soak"], None]


class Soak:
    """Runs several uses of one broker, each in its own thread, until `stop` is set. An error in a thread ends the run."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.stop = threading.Event()
        self.errors: list[Exception] = []
        self.counts = dict.fromkeys(("transactions", "records read", "connections", "topics"), 0)

    def run(self, use: Use) -> threading.Thread:
        def guarded() -> None:
            try:
                while not self.stop.is_set():
                    use(self)
            except Exception as error:
                self.errors.append(error)
                self.stop.set()

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def connect(self) -> socket.socket:
        host, _, port = self.bootstrap.rpartition(":")
        return socket.create_connection((host, int(port)), 10)


def write_transactions(soak: Soak) -> None:
    """Run one producer with two hundred transactions, of which every fifth is aborted."""
    producer = Producer({"bootstrap.servers": soak.bootstrap, "transactional.id": "soak", "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(200):
        if soak.stop.is_set():
            return
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(TOPIC, value=b"v" * 200)
        if number % 5 == 4:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        soak.counts["transactions"] += 1


def read_in_a_group(soak: Soak) -> None:
    """Run one member of a group, which reads, commits and leaves."""
    settings = {"bootstrap.servers": soak.bootstrap, "group.id": "soak", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 10_000})
    consumer.subscribe([TOPIC])
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s and not soak.stop.is_set():
        messages = consumer.consume(500, 0.5)
        if messages:
            consumer.commit(asynchronous=False)
            soak.counts["records read"] += len(messages)
    consumer.close()


def connect_and_go(soak: Soak) -> None:
    """Open a short connection, and a connection that is closed during a long poll."""
    with soak.connect() as connection:
        connection.sendall(request_frame(3, 12, 1, "short", MetadataRequest(None)))
        connection.recv(4096)
    ahead = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(PARTITIONS)]
    poll = FetchRequest(max_wait_ms=60_000, min_bytes=1 << 30, topics=[FetchTopic(topic=TOPIC, partitions=ahead)])
    with soak.connect() as connection:
        connection.sendall(request_frame(1, 11, 1, "poll", poll))
        soak.stop.wait(0.05)
    soak.counts["connections"] += 2


def make_and_delete_topics(soak: Soak) -> None:
    admin = AdminClient({"bootstrap.servers": soak.bootstrap})
    for number in itertools.count():
        if soak.stop.wait(5):
            return
        name = f"short-{number}"
        admin.create_topics([NewTopic(name, 10)])[name].result(30)
        admin.delete_topics([name])[name].result(30)
        soak.counts["topics"] += 1


USES: tuple[Use, ...] = (write_transactions, read_in_a_group, read_in_a_group, connect_and_go, make_and_delete_topics)


def measured(pid: int, soak: Soak, minutes: float, console: Console) -> list[float]:
    """Return the median of the resident memory of each minute, in MiB. The last minute may be incomplete."""
    medians: list[float] = []
    with Progress(console=console) as progress:
        task = progress.add_task("soaking", total=minutes)
        for begun in range(math.ceil(minutes)):
            samples: list[float] = []
            until_s = time.monotonic() + 60 * min(1, minutes - begun)
            while time.monotonic() < until_s and not soak.stop.wait(SAMPLE_S):
                samples.append(memory_mib(pid))
            if soak.errors:
                break
            medians.append(statistics.median(samples))
            progress.update(task, advance=1, description=f"{medians[-1]:.1f} MiB")
    return medians


def table_of(medians: list[float], soak: Soak, cpu: float) -> Table:
    table = Table("minute", *(f"+{n}" for n in range(10)), title="resident memory by the minute, MiB", title_justify="left")
    for first in range(0, len(medians), 10):
        table.add_row(str(first + 1), *(f"{value:.1f}" for value in medians[first : first + 10]))
    counts = ", ".join(f"{count:,} {name}" for name, count in soak.counts.items())
    table.caption = f"{counts}; {cpu:.0f} s of processor time"
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="how long, after the minutes to warm up")
    parser.add_argument("--warm-up", type=int, default=5, metavar="MINUTES")
    options = parser.parse_args()
    console = Console(width=120)
    with Broker(settings=SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30)
        soak = Soak(broker.bootstrap)
        threads = [soak.run(use) for use in USES]
        assert broker.pid is not None
        medians = measured(broker.pid, soak, options.warm_up + options.minutes, console)
        used_s = cpu_s(broker.pid)
        soak.stop.set()
        for thread in threads:
            thread.join(60)
    console.print(table_of(medians, soak, used_s))
    if soak.errors:
        raise soak.errors[0]
    counted = medians[options.warm_up :]
    middle = statistics.median(counted)
    widest = max(abs(value - middle) for value in counted) / middle
    console.print(f"after {options.warm_up} minutes: {middle:.1f} MiB, at most {widest:.1%} from it (allowed {TOLERANCE:.0%})")
    return 0 if widest <= TOLERANCE else 1


if __name__ == "__main__":
    raise SystemExit(main())
