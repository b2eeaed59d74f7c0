"""Compares transactions over TLS 1.3 with Apache Kafka: ``python -m benchmarks.secured [--pairs 5] [--scale 0.5]``.

Eight Java producers commit transactions of two records in two partitions, alternately at Apache Kafka and at ottla, each with a new
directory and its default settings, with certificates of the same kind, and after a warm-up. With ``--plain`` clients use no TLS.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.brokers import cpu_s, wait_for_metadata
from benchmarks.workloads import Size, create_topic, java_transactions
from ottla import Broker
from ottla.broker.loop.env import free_port
from ottla.testing.security.authority import Authority
from tools.kafka import SERVER_JVM, ApacheKafka

TOPICS = ("warm-up", "t")
PARTITIONS = 2
VERSIONS = "TLSv1.3"


@dataclass(slots=True, frozen=True)
class Served:
    """A broker with the topics. ``config`` is the file with the settings of its clients."""

    bootstrap: str
    pid: int
    config: Path | None = None


@dataclass(slots=True, frozen=True)
class Rate:
    """Transactions per second, and the broker's processor time for one transaction in ms."""

    per_s: float
    cpu_ms: float


Starting = Callable[[], contextlib.AbstractContextManager[Served]]


@contextlib.contextmanager
def ottla(*, has_tls: bool) -> Iterator[Served]:
    with Broker(security="SSL", settings={"ssl.enabled.protocols": VERSIONS}) if has_tls else Broker() as broker:
        for topic in TOPICS:
            broker.create_topic(topic, PARTITIONS)
        assert broker.pid is not None
        yield Served(broker.bootstrap, broker.pid, broker.client_properties() if has_tls else None)


@contextlib.contextmanager
def apache_kafka(*, has_tls: bool) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as directory:
        store, trusted, config = (Path(directory) / name for name in ("server.pem", "ca.pem", "client.properties"))
        authority, port = Authority("benchmark"), free_port("127.0.0.1")
        store.write_text(authority.issue("kafka", ["localhost", "127.0.0.1"]))
        trusted.write_text(authority.certificate)
        config.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n")
        settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store), "ssl.enabled.protocols": VERSIONS}
        kafka = ApacheKafka(
            Path(directory) / "kafka",
            jvm=SERVER_JVM,
            settings=settings if has_tls else None,
            listeners={"SSL": port} if has_tls else None,
        ).start()
        try:
            assert kafka.pid is not None
            wait_for_metadata(kafka.bootstrap)
            for topic in TOPICS:
                create_topic(Served(kafka.bootstrap, kafka.pid), topic, PARTITIONS)
            yield Served(f"127.0.0.1:{port}", kafka.pid, config) if has_tls else Served(kafka.bootstrap, kafka.pid)
        finally:
            kafka.stop()


def rate(start: Starting, producers: int, size: Size) -> Rate:
    with start() as served:
        java_transactions(served, "warm-up", producers, 0, size.seconds(3), served.config)
        run_s, before_s = size.seconds(8), cpu_s(served.pid)
        per_s, _, _ = java_transactions(served, "t", producers, 0, run_s, served.config)
        return Rate(per_s, (cpu_s(served.pid) - before_s) / (per_s * run_s) * 1_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="runs of each broker")
    parser.add_argument("--producers", type=int, default=8)
    parser.add_argument("--scale", type=float, default=1.0, help="length of the runs; 1.0 is 8 s")
    parser.add_argument("--plain", action="store_true", help="measure without TLS")
    given = parser.parse_args()
    starts: dict[str, Starting] = {
        "Apache Kafka": lambda: apache_kafka(has_tls=not given.plain),
        "ottla": lambda: ottla(has_tls=not given.plain),
    }
    rates: dict[str, list[Rate]] = {name: [] for name in starts}
    for number in track(range(given.pairs), "pairs", console=Console(stderr=True), transient=True):
        for name in list(starts) if number % 2 == 0 else list(starts)[::-1]:
            rates[name].append(rate(starts[name], given.producers, Size(given.scale)))
    theirs, ours = rates.values()
    ratios = [our.per_s / their.per_s for our, their in zip(ours, theirs, strict=True)]
    print("| producers | Kafka (1/s) | ottla (1/s) | ratio, median | ratio, pair by pair | Kafka, CPU (ms) | ottla, CPU (ms) |")
    print("|--:|--:|--:|--:|---|--:|--:|")
    per_s = [f"{statistics.median(one.per_s for one in side):,.0f}" for side in (theirs, ours)]
    cpu_ms = [f"{statistics.median(one.cpu_ms for one in side):.2f}" for side in (theirs, ours)]
    each = " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"| {given.producers} | {' | '.join(per_s)} | {statistics.median(ratios):.2f} | {each} | {' | '.join(cpu_ms)} |")


if __name__ == "__main__":
    main()
