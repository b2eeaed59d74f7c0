"""Compares the exactly-once sink with Spark's own Kafka sink: a stream that copies a topic, run in turn with each sink.

``python -m benchmarks.spark_sinks`` prints the table of docs/performance.md; ``--against kafka`` writes to Apache Kafka. Both sinks
compress with lz4, and Spark's producers are idempotent and wait for all replicas.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import ottla.spark
from benchmarks.brokers import process_tree, wait_for_metadata
from ottla import Broker
from ottla.pipeline.topics import create
from ottla.spark.session.session import session
from tools.kafka import ApacheKafka

WARM_UPS = 2
"""Number of initial pairs that are not measured, because the JVM is still compiling."""
WORDS = [bytes(random.Random(0).randrange(97, 123) for _ in range(6)) for _ in range(2_000)]
"""Words of the values, which compress to about a third."""


@contextlib.contextmanager
def broker_of(against: str, folder: Path) -> Iterator[str]:
    """Run a broker, and yield its bootstrap address."""
    if against == "ottla":
        with Broker(data_dir=folder / "data") as broker:
            yield broker.bootstrap
        return
    kafka = ApacheKafka(folder)
    kafka.start()
    try:
        wait_for_metadata(kafka.bootstrap)
        yield kafka.bootstrap
    finally:
        kafka.stop()


def fill(bootstrap: str, topic: str, rows: int, size_bytes: int, partitions: int, *, has_keys: bool) -> None:
    """Write rows of about ``size_bytes``, the same number to each partition."""
    rng = random.Random(size_bytes)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(rows):
        value = b" ".join(rng.choices(WORDS, k=max(1, size_bytes // 7)))
        while True:
            with contextlib.suppress(BufferError):
                producer.produce(topic, value, f"key-{number}".encode() if has_keys else None, partition=number % partitions)
                break
            producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError(f"not all records of {topic} were acknowledged")


def processor_s() -> float:
    """Return the processor time, in seconds, of this process and its descendants: Spark's JVM and workers, and the broker."""
    # The fields utime and stime, then the same for children that have ended.
    ticks = sum(sum(map(int, fields[11:15])) for fields in process_tree().values())
    return ticks / os.sysconf("SC_CLK_TCK")


def copied(spark: Any, bootstrap: str, source: str, rows: int, *, has_keys: bool) -> Any:
    frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows)
        .load()
    )
    return frame.select("key", "value") if has_keys else frame.select("value")


def run_ours(frame: Any, bootstrap: str, target: str, checkpoint: str) -> None:
    # Each checkpoint has its own transactional id.
    sink = ottla.spark.sink({"kafka.bootstrap.servers": bootstrap, "transactional.id": Path(checkpoint).name, "topic": target})
    frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).trigger(
        availableNow=True
    ).start().awaitTermination()


def run_theirs(frame: Any, bootstrap: str, target: str, checkpoint: str) -> None:
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    writer = writer.option("kafka.compression.type", "lz4").option("kafka.acks", "all").option("kafka.enable.idempotence", "true")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def compare(
    spark: Any, bootstrap: str, folder: Path, size_bytes: int, tasks: int, rows: int, options: Any
) -> tuple[list[float], list[float]]:
    """Return the ratios of each pair of runs, Spark's sink divided by ottla's: of the elapsed times, and of the processor times."""
    name = f"{size_bytes}-{tasks}-{rows}"
    source, ours, theirs = f"source-{name}", f"ours-{name}", f"theirs-{name}"
    create(bootstrap, (source, ours, theirs), tasks)
    fill(bootstrap, source, rows * options.batches, size_bytes, tasks, has_keys=options.keys)
    elapsed, processor = [], []
    for number in range(WARM_UPS + options.pairs):
        times, used = {}, {}
        for which in random.sample((0, 1), 2):
            frame = copied(spark, bootstrap, source, rows, has_keys=options.keys)
            began_s, used_s = time.perf_counter(), processor_s()
            checkpoint = str(folder / f"{name}-{which}-{number}")
            (run_theirs if which else run_ours)(frame, bootstrap, theirs if which else ours, checkpoint)
            times[which], used[which] = time.perf_counter() - began_s, processor_s() - used_s
        shown = f"{times[0]:.2f} s, Spark's sink {times[1]:.2f} s; processor {used[0]:.2f} s, {used[1]:.2f} s"
        print(f"{name}: {shown}", file=sys.stderr, flush=True)
        elapsed.append(times[1] / times[0])
        processor.append(used[1] / used[0])
    return elapsed[WARM_UPS:], processor[WARM_UPS:]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark_sinks", description="Compare the exactly-once sink with Spark's.")
    parser.add_argument("--against", choices=("ottla", "kafka"), default="ottla", help="the broker (default: ottla)")
    parser.add_argument("--bytes", type=int, nargs="+", default=[100, 500, 2_000], help="sizes of a value")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 4, 8], help="numbers of partitions of source and target")
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000], help="rows of a micro-batch")
    parser.add_argument("--batches", type=int, default=3, help="micro-batches of a run (default: 3)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--keys", action=argparse.BooleanOptionalAction, default=True, help="whether records have keys")
    options = parser.parse_args()
    table = Table(title=f"{options.against}: copies of a topic, {options.pairs} pairs in turn, ratio to Spark's own sink")
    for column in ("bytes", "tasks", "rows a batch", "ratio", "lowest", "highest", "processor time"):
        table.add_column(column, justify="right")
    spark = session("ottla-benchmark")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, broker_of(options.against, Path(name)) as bootstrap:
        for size_bytes, tasks, rows in itertools.product(options.bytes, options.tasks, options.rows):
            ratios, of_processor = compare(spark, bootstrap, Path(name), size_bytes, tasks, rows, options)
            shown = (statistics.median(ratios), min(ratios), max(ratios), statistics.median(of_processor))
            table.add_row(str(size_bytes), str(tasks), f"{rows:,}", *(f"{ratio:.2f}" for ratio in shown))
    Console(width=100).print(table)
    spark.stop()


if __name__ == "__main__":
    main()
