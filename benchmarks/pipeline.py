"""Compares the pipeline with Spark's own connector in alternating runs in one session: bulk reads, and the exactly-once sink.

``python -m benchmarks.pipeline`` prints the tables of docs/performance.md; with arguments such as ``sink`` or ``small``, only these
are measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ottla.spark
from benchmarks.brokers import process_tree
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.jobs import shop, totals
from ottla.pipeline.jobs.export import ExportOptions, export
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS, TOTALS, ShopTopics, Terms
from ottla.pipeline.settings import STATE_STORES
from ottla.pipeline.stream import Running, StreamOptions, asked_limits, read, source_options
from ottla.pipeline.topics import create, fill
from ottla.spark.rows.rows import Outgoing
from ottla.spark.session.session import session

console = Console(stderr=True)

WHAT = ("reads", "sink", "small", "partitions", "large", "backlog", "keys", "nulls")
FEW, MANY = 2, 100
LARGE_BYTES = 5_000_000
LARGE_RECORDS = 20
NULL_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
ARROW_BATCH_RECORDS = (20_000, 100_000)
"""Numbers of records per Arrow batch: the setting of `ottla.spark.session`, and a number at which quadratic time is noticeable."""
WARM_UPS = 2
"""Number of initial runs of each sink that are not measured, because the JVM is still compiling."""


def reads(spark: Any, broker: Broker, root: Path) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return, for each measurement, a function that reads segment files and a function that uses Spark's connector."""
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
    """Run the shop as a stream with each of the two sinks. Source and transform are the same."""
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
            terms = Terms(limits=asked_limits(options, shop.JOB))
            frame = shop.transform(read(spark, shop.JOB, options), "bench", options.values, terms)
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


def compare_partitions(spark: Any, rows: int, pairs: int, batch_records: int) -> None:
    """Run the shop with output topics of a hundred partitions, and of two partitions."""
    table = Table(title=f"{rows:,} purchases, {batch_records:,} a batch, {pairs} pairs turn about: purchases a second, median")
    for column in ("", f"{MANY} output partitions", f"{FEW}", "ratio", "lowest", "highest"):
        table.add_column(column, justify="right" if column else "left")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, Broker(data_dir=Path(name) / "data") as broker:
        create(broker.bootstrap, (PURCHASES,), 2)
        fill(broker.bootstrap, PURCHASES, track(purchases(Workload(rows)), "purchases", total=rows, console=console))
        for count in (FEW, MANY):
            create(broker.bootstrap, _outputs(count), count)

        def run(count: int, number: int) -> None:
            topics = ShopTopics(PURCHASES, *_outputs(count))
            checkpoint, identity = f"{name}/{count}-{number}", f"shop-{count}-{number}"
            options = StreamOptions(broker.bootstrap, identity, checkpoint, "bench", batch_records, terms=Terms(topics=topics))
            Running(spark, shop.job(topics), options, lambda batch, error: None).finish()

        times = [
            (seconds(lambda n=number: run(MANY, n)), seconds(lambda n=number: run(FEW, n)))  # type: ignore[misc]
            for number in track(range(WARM_UPS + pairs), "partitions", console=console)
        ]
    add_row(table, "shop", rows, times[WARM_UPS:])
    Console().print(table)


def _outputs(partitions: int) -> tuple[str, str, str]:
    return f"{INVOICES}-{partitions}", f"{SHIPMENTS}-{partitions}", f"{DEAD_LETTERS}-{partitions}"


def large_records(spark: Any, pairs: int) -> None:
    """Write records of 5 MB, which the topic's max.message.bytes allows."""
    from pyspark.sql import functions as f

    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, Broker(data_dir=Path(name) / "data") as broker:
        broker.create_topic("numbers", partitions=2)
        broker.create_topic("large", partitions=2, configs={"max.message.bytes": str(2 * LARGE_BYTES)})
        with KafkaClient(broker.bootstrap) as cluster:
            cluster.produce("numbers", [NewRecord(b"%d" % n, key=b"%d" % n) for n in range(LARGE_RECORDS)])
        frame = spark.readStream.format("kafka").options(**source_options(broker.bootstrap, "numbers")).load()
        digits = f.lpad(f.col("value").cast("string"), 10, "0")
        frame = frame.select("key", f.repeat(digits, LARGE_BYTES // 10).alias("value"))

        def run(number: int) -> None:
            settings = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": f"large-{number}", "topic": "large"}
            writer = frame.writeStream.foreachBatch(ottla.spark.sink(settings)).option("checkpointLocation", f"{name}/{number}")
            writer.trigger(availableNow=True).start().awaitTermination()

        times = [seconds(lambda n=number: run(n)) for number in range(1 + pairs)][1:]  # type: ignore[misc]
        count = sum(1 for record in broker.records("large") if len(record.value or b"") == LARGE_BYTES)
    megabytes = LARGE_RECORDS * LARGE_BYTES / 1e6
    Console().print(
        f"{LARGE_RECORDS} records of {LARGE_BYTES:,} bytes: {megabytes / statistics.median(times):,.0f} MB/s;"
        f" {count} of {LARGE_RECORDS * (1 + pairs)} are there"
    )


def backlog(spark: Any, rows: int, batch_records: int, partitions: int) -> None:
    """Run the shop over its whole backlog, and measure the memory of driver, JVM and Python workers."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, Broker(data_dir=Path(name) / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), partitions)
        fill(broker.bootstrap, PURCHASES, track(purchases(Workload(rows)), "purchases", total=rows, console=console))
        options = StreamOptions(broker.bootstrap, "shop", f"{name}/checkpoint", "bench", batch_records)
        measured_run(spark, shop.JOB, options, rows, f"shop, a backlog of {rows:,}")


def many_keys(spark: Any, keys: int, batch_records: int, partitions: int) -> None:
    """Sum over many users and products, with each of Spark's state stores."""
    for store in sorted(STATE_STORES, reverse=True):
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name, Broker(data_dir=Path(name) / "data") as broker:
            create(broker.bootstrap, (PURCHASES, TOTALS), partitions)
            # Each user and product occurs about once.
            workload = Workload(keys, users=keys, products=1_000, malformed_share=0, late_share=0)
            fill(broker.bootstrap, PURCHASES, track(purchases(workload), "purchases", total=keys, console=console))
            options = StreamOptions(broker.bootstrap, "totals", f"{name}/checkpoint", "bench", batch_records, state_store=store)
            measured_run(spark, totals.JOB, options, keys, f"totals, {keys:,} keys, {store}")


def null_lists(spark: Any, rows: int, pairs: int) -> None:
    """Send rows without headers to Python's workers: arranged by the sink, and with a column of null lists.

    For each null list, Arrow's writer in the JVM searches the last list that is not null (ListVector.setNull).
    """
    from pyspark.sql import functions as f

    table = Table(title=f"{rows:,} rows without headers to Python, {pairs} pairs in turn: rows a second, median")
    for column in ("Arrow batch", "no column", "null lists", "ratio", "lowest", "highest"):
        table.add_column(column, justify="right" if column != "Arrow batch" else "left")
    given = spark.range(rows, numPartitions=2).select(f.col("id").cast("string").alias("value"))
    present = Outgoing("t").rows(given)
    before = present.select("*", f.expr(NULL_HEADERS))

    def to_python(frame: Any) -> None:
        assert frame.mapInArrow(_counted, "n LONG").agg(f.sum("n")).collect()[0][0] == rows

    for size in ARROW_BATCH_RECORDS:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(size))
        for frame in (present, before):
            to_python(frame)
        times = []
        for number in track(range(pairs), f"{size:,} a batch", console=console):
            took = {}
            for is_before in (False, True) if number % 2 else (True, False):
                took[is_before] = seconds(lambda is_before=is_before: to_python(before if is_before else present))  # type: ignore[misc]
            times.append((took[False], took[True]))
        add_row(table, f"{size:,} records", rows, times)
    Console().print(table)


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"n": [len(batch)]})


def measured_run(spark: Any, job: Any, options: StreamOptions, rows: int, what: str) -> None:
    """Print the throughput, the resident memory after a quarter of the run, and the maximum resident memory."""
    resident: list[dict[str, int]] = []

    def note(progress: object) -> None:
        resident.append(resident_bytes())

    running = Running(spark, job, options, lambda batch, error: None)
    took_s = seconds(lambda: running.finish(note))
    early = resident[len(resident) // 4]
    table = Table(title=f"{what}, {options.batch_records:,} a batch: {rows / took_s:,.0f} purchases a second")
    for column in ("resident memory, MiB", "at a quarter", "most"):
        table.add_column(column, justify="left" if column.startswith("resident") else "right")
    for process in early:
        most = max(sample.get(process, 0) for sample in resident)
        table.add_row(process, f"{early[process] >> 20:,}", f"{most >> 20:,}")
    Console().print(table)


def resident_bytes() -> dict[str, int]:
    """Return the resident memory of the driver's Python process, of the JVM (also the executor), and of all Python workers."""
    totals_by_kind = {"driver": 0, "JVM": 0, "Python workers": 0}
    for pid in process_tree():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            kind = "Python workers" if b"pyspark.daemon" in command else "JVM" if b"SparkSubmit" in command else ""
            kind = "driver" if pid == os.getpid() else kind
            if kind:
                totals_by_kind[kind] += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return totals_by_kind


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline")
    parser.add_argument("what", nargs="*", default=list(WHAT), help=f"of {', '.join(WHAT)}; all of them without")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--sink-rows", type=int, default=600_000)
    parser.add_argument("--batch-records", type=int, default=100_000)
    parser.add_argument("--small-rows", type=int, default=60_000)
    parser.add_argument("--small-records", type=int, default=2_000)
    parser.add_argument("--backlog-rows", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--null-rows", type=int, default=800_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args(arguments)
    pairs, partitions, batch_records = options.pairs, options.partitions, options.batch_records
    unknown = [what for what in options.what if what not in WHAT]
    if unknown:
        parser.error(f"nothing is called {unknown[0]!r}: choose of {', '.join(WHAT)}")
    spark = session("ottla-benchmark")
    measures: dict[str, Callable[[], None]] = {
        "reads": lambda: compare_reads(spark, options.rows, pairs, partitions),
        "sink": lambda: compare_sinks(spark, options.sink_rows, pairs, partitions, batch_records),
        "small": lambda: compare_sinks(spark, options.small_rows, pairs, partitions, options.small_records),
        "partitions": lambda: compare_partitions(spark, options.sink_rows, pairs, batch_records),
        "large": lambda: large_records(spark, pairs),
        "backlog": lambda: backlog(spark, options.backlog_rows, batch_records, partitions),
        "keys": lambda: many_keys(spark, options.keys, batch_records, partitions),
        "nulls": lambda: null_lists(spark, options.null_rows, pairs),
    }
    for what in options.what:
        measures[what]()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
