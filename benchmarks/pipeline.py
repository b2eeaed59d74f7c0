"""The pipeline beside what Spark brings along, turn about in one session: reading in bulk, and the exactly-once sink.

``python -m benchmarks.pipeline`` prints the tables of the README.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ottla import Broker
from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.jobs import shop
from ottla.pipeline.jobs.export import ExportOptions, export
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS
from ottla.pipeline.stream import Running, StreamOptions, read, source_options
from ottla.pipeline.topics import create, fill
from ottla.spark.session import session

console = Console(stderr=True)

WARM_UPS = 2
"""Runs of either sink before they count: the JVM compiles all the while."""


def reads(spark: Any, broker: Broker, root: Path) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Name -> by segments, by the connector."""
    from pyspark.sql import functions as f

    def segments(schema: str | None = None) -> Any:
        reader = spark.read.format("ottla").option("path", str(root / "data")).option("subscribe", PURCHASES)
        return (reader.schema(schema) if schema else reader).load()

    def connector() -> Any:
        return spark.read.format("kafka").options(**source_options(broker.bootstrap, PURCHASES)).load()

    def scan(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def parse(frame: Any) -> object:
        return shop.parsed(frame).agg(f.sum("p.price_cents"), f.count("p.id")).collect()

    def spark_writes(frame: Any, to: str) -> None:
        frame.write.mode("overwrite").parquet(str(root / to))

    def job(to: str, data_dir: str | None) -> None:
        shutil.rmtree(root / to, ignore_errors=True)
        export(spark, ExportOptions(broker.bootstrap, PURCHASES, str(root / to), data_dir), lambda done, parts, records: None)

    return {
        "scan": (lambda: scan(segments()), lambda: scan(connector())),
        "JSON": (lambda: parse(segments("value BINARY")), lambda: parse(connector())),
        "Parquet, the job export": (lambda: job("c", str(root / "data")), lambda: job("d", None)),
        "Parquet by Spark's writer": (lambda: spark_writes(segments(), "a"), lambda: spark_writes(connector(), "b")),
    }


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def compare_reads(spark: Any, rows: int, pairs: int, partitions: int) -> None:
    table = Table(title=f"{rows:,} purchases, {partitions} partitions, {pairs} pairs turn about: records a second, median")
    for column in ("", "segments", "connector", "ratio", "lowest", "highest"):
        table.add_column(column, justify="right" if column else "left")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, Broker(data_dir=Path(name) / "data") as broker:
        create(broker.bootstrap, (PURCHASES,), partitions)
        fill(broker.bootstrap, PURCHASES, track(purchases(Workload(rows)), "purchases", total=rows, console=console))
        for what, (ours, theirs) in reads(spark, broker, Path(name)).items():
            ours(), theirs()
            times = [(seconds(ours), seconds(theirs)) for _ in track(range(pairs), what, console=console)]
            add_row(table, what, rows, times)
    Console().print(table)


def add_row(table: Table, what: str, rows: int, times: list[tuple[float, float]]) -> None:
    ratios = [b / a for a, b in times]
    speeds = [f"{rows / statistics.median(t[which] for t in times):,.0f}" for which in (0, 1)]
    table.add_row(what, *speeds, *(f"{r:.2f}" for r in (statistics.median(ratios), min(ratios), max(ratios))))


def compare_sinks(spark: Any, rows: int, pairs: int, partitions: int, batch_records: int) -> None:
    """The shop as a stream, by either sink; the same source and transform."""
    table = Table(title=f"{rows:,} purchases, {batch_records:,} a batch, {pairs} pairs turn about: purchases a second, median")
    for column in ("", "exactly once", "Spark's own", "ratio", "lowest", "highest"):
        table.add_column(column, justify="right" if column else "left")
    commits_ms: list[float] = []
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, Broker(data_dir=Path(name) / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), partitions)
        fill(broker.bootstrap, PURCHASES, track(purchases(Workload(rows)), "purchases", total=rows, console=console))

        def ours(number: int) -> None:
            options = StreamOptions(broker.bootstrap, f"shop-{number}", f"{name}/ours-{number}", "bench", batch_records)
            reports = Running(spark, shop.JOB, options, lambda batch, error: None).finish()
            commits_ms.extend(report.commit_ms for report in reports)

        def theirs(number: int) -> None:
            options = StreamOptions(broker.bootstrap, "", "", "", batch_records)
            frame = shop.transform(read(spark, shop.JOB, options), "bench")
            writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
            writer = writer.option("includeHeaders", "true").option("kafka.compression.type", "lz4")
            writer.option("checkpointLocation", f"{name}/theirs-{number}").trigger(availableNow=True).start().awaitTermination()

        times = []
        for number in track(range(WARM_UPS + pairs), "sinks", console=console):
            times.append((seconds(lambda n=number: ours(n)), seconds(lambda n=number: theirs(n))))  # type: ignore[misc]
            if number < WARM_UPS:
                commits_ms.clear()
    add_row(table, "shop", rows, times[WARM_UPS:])
    Console().print(table)
    ordered = sorted(commits_ms)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    Console().print(f"{len(ordered)} commits: p50 {p50:.1f} ms, p99 {p99:.1f} ms")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline")
    parser.add_argument("what", nargs="*", default=["reads", "sink"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--sink-rows", type=int, default=600_000)
    parser.add_argument("--batch-records", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args(arguments)
    spark = session("ottla-benchmark")
    if "reads" in options.what:
        compare_reads(spark, options.rows, options.pairs, options.partitions)
    if "sink" in options.what:
        compare_sinks(spark, options.sink_rows, options.pairs, options.partitions, options.batch_records)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
