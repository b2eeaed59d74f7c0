"""The workloads: each function runs a stock client against a broker, and returns samples."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.brokers import cpu_s
from tools import kafka

HERE = Path(__file__).parent
TIMEOUT_S = 300


class Reachable(Protocol):
    @property
    def bootstrap(self) -> str: ...


class Process(Reachable, Protocol):
    @property
    def pid(self) -> int: ...


@dataclass(slots=True, frozen=True)
class Sample:
    """The measured value of one run. ``cpu_s`` is the broker's processor time during the run, in seconds."""

    value: float
    cpu_s: float = 0.0


Samples = dict[str, Sample]


@dataclass(slots=True, frozen=True)
class Size:
    """The amount of work. ``scale`` 1.0 is the full measurement."""

    scale: float = 1.0

    def records(self, full: int) -> int:
        return max(1_000, int(full * self.scale))

    def seconds(self, full: float) -> float:
        return max(1.0, full * self.scale)


def _measured(subject: Process, work: Callable[[], float]) -> Sample:
    before = cpu_s(subject.pid)
    value = work()
    return Sample(value, cpu_s(subject.pid) - before)


def create_topic(subject: Process, topic: str, partitions: int = 2) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": subject.bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)


def java_produce(subject: Reachable, topic: str, count: int, size_bytes: int, batch_bytes: int | None) -> float:
    """Return the records per second of Kafka's ProducerPerformance."""
    arguments = ["--topic", topic, "--num-records", str(count), "--record-size", str(size_bytes), "--throughput", "-1"]
    arguments += ["--bootstrap-server", subject.bootstrap]
    if batch_bytes is not None:
        arguments += ["--command-property", f"batch.size={batch_bytes}", "linger.ms=5"]
    output = kafka.tool("org.apache.kafka.tools.ProducerPerformance", *arguments, timeout_s=TIMEOUT_S)
    rates = re.findall(r"records sent, ([\d.]+) records/sec", output)
    return float(rates[-1])


def java_consume(subject: Process, topic: str, count: int) -> float:
    """Return the records per second of Kafka's ConsumerPerformance, without the time of the rebalance."""
    arguments = ["--topic", topic, "--num-records", str(count), "--bootstrap-server", subject.bootstrap, "--timeout", "60000"]
    output = kafka.tool("org.apache.kafka.tools.ConsumerPerformance", *arguments, timeout_s=TIMEOUT_S)
    return float(output.strip().splitlines()[-1].split(",")[-1])


def _confluent(subject: Process, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.confluent_load", subject.bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True, cwd=HERE.parent)
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _confluent_rate(subject: Process, *arguments: str) -> float:
    return _confluent(subject, *arguments)["per_s"]


def java_transactions(
    subject: Reachable, topic: str, producers: int, warm_up_s: float, run_s: float, config: Path | None = None
) -> tuple[float, float, float]:
    """Return transactions per second, and p50 and p99 of commits in ms. ``config`` is a file with further settings of producers."""
    program = str(HERE / "TransactionBench.java")
    command = [kafka.java(), "-Xmx512M", "-cp", kafka.jars("clients"), program, subject.bootstrap, topic, str(producers)]
    command += [str(int(warm_up_s * 1000)), str(int(run_s * 1000)), *([] if config is None else [str(config)])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    words = next(line for line in done.stdout.splitlines() if line.startswith("RESULT")).split()
    return int(words[1]) / float(words[2]), float(words[3]), float(words[4])


def throughput(subject: Process, size: Size) -> Samples:
    """Produce and consume records of 100 B and 1 KiB, in default and 64 KB batches, with Java's client and librdkafka."""
    samples: Samples = {}
    work: Callable[[], float]
    for size_bytes, full in ((100, 1_500_000), (1024, 300_000)):
        count = size.records(full)
        for label, batch_bytes in (("default", None), ("64 KB", 65_536)):
            topic = f"p-{size_bytes}-{batch_bytes or 'default'}"
            create_topic(subject, topic)
            work = partial(java_produce, subject, topic, count, size_bytes, batch_bytes)
            samples[f"produce, Java, {size_bytes} B, {label} batches (records/s)"] = _measured(subject, work)
        work = partial(java_consume, subject, f"p-{size_bytes}-65536", count)
        samples[f"consume, Java, {size_bytes} B (records/s)"] = _measured(subject, work)
        topic = f"c-{size_bytes}"
        create_topic(subject, topic)
        for verb in ("produce", "consume"):
            work = partial(_confluent_rate, subject, verb, topic, str(count), str(size_bytes))
            samples[f"{verb}, librdkafka, {size_bytes} B (records/s)"] = _measured(subject, work)
    return samples


def durable(subject: Process, size: Size) -> Samples:
    """Run transactions whose responses wait for syncs to the disk. One, eight and sixty-four producers share the syncs."""
    samples: Samples = {}
    for producers in (1, 8, 64):
        topic = f"d-{producers}"
        create_topic(subject, topic)
        before = cpu_s(subject.pid)
        per_s, p50, p99 = java_transactions(subject, topic, producers, size.seconds(3), size.seconds(8))
        label = f"on the disk, {producers} producer{'s' if producers > 1 else ''}"
        samples[f"transactions, {label} (1/s)"] = Sample(per_s, cpu_s(subject.pid) - before)
        samples[f"commit p50, {label} (ms)"] = Sample(p50)
        samples[f"commit p99, {label} (ms)"] = Sample(p99)
    return samples


def transactions(subject: Process, size: Size) -> Samples:
    """Run transactions of two records in two partitions, with one producer and with eight producers at the same time."""
    samples: Samples = {}
    warm_up_s, run_s = size.seconds(3), size.seconds(8)
    for producers in (1, 8):
        for name in ("Java TV2", "librdkafka TV1"):
            topic = f"t-{producers}-{name[:4].strip()}"
            create_topic(subject, topic)
            before = cpu_s(subject.pid)
            if name == "Java TV2":
                per_s, p50, p99 = java_transactions(subject, topic, producers, warm_up_s, run_s)
            else:
                result = _confluent(subject, "transactions", topic, str(producers), str(warm_up_s), str(run_s))
                per_s, p50, p99 = result["per_s"], result["p50"], result["p99"]
            label = f"{name}, {producers} producer{'s' if producers > 1 else ''}"
            samples[f"transactions, {label} (1/s)"] = Sample(per_s, cpu_s(subject.pid) - before)
            samples[f"commit p50, {label} (ms)"] = Sample(p50)
            samples[f"commit p99, {label} (ms)"] = Sample(p99)
    return samples
