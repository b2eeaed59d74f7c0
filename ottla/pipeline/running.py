"""Runs a job of ``ottla pipeline`` for a person: shows its progress, and chooses the exit code."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from ottla.pipeline.settings import AuditSettings, ExportSettings, GenerateSettings, JobPlace, StreamSettings
from ottla.pipeline.signals import noted_signals
from ottla.spark.connecting import Connecting
from ottla.spark.formats import FORMATS

UNSOUND_EXIT = 2
"""The exit code of a job that ran and found something wrong."""

console = Console(stderr=True)
tables = Console()


def run_generate(options: GenerateSettings) -> int:
    """Run the job generate; returns the exit code. Raises `PipelineError`."""
    from ottla.pipeline.generate import Workload, purchases
    from ottla.pipeline.topics import create, fill

    bootstrap, topics = options.place.bootstrap, options.topics
    create(bootstrap, msgspec.structs.astuple(topics), options.partitions)
    workload = Workload(options.rows, options.seed)
    if options.transactional_id is not None:
        return _generate_by_spark(options, options.transactional_id, workload)
    rows = purchases(workload, FORMATS[options.format])
    fill(bootstrap, topics.source, track(rows, "purchases", total=options.rows, console=console))
    return 0


def _generate_by_spark(options: GenerateSettings, transactional_id: str, workload: Any) -> int:
    from ottla.pipeline.jobs.generate import GenerateOptions, generate

    topic = options.topics.source
    settings = GenerateOptions(options.place.bootstrap, topic, workload, options.format, transactional_id)

    def show_progress(report: Any) -> None:
        console.print(f"part {report.batch}: {'was written before' if report.is_replay else f'{report.records:,} records'}")

    total = generate(_session(options.place, "generate"), settings, show_progress)
    console.print(f"generate: {total:,} records written to {topic}")
    return 0


def _session(place: JobPlace, name: str) -> Any:
    from ottla.spark.session import session

    return session(f"ottla-{name}", master=place.master, cores=place.cores)


def run_stream(name: str, options: StreamSettings) -> int:
    """Run a streaming job; returns the exit code, which is 128 and the number of the signal where a signal has stopped the job.
    Raises `PipelineError`."""
    from ottla.pipeline.jobs import shop, totals
    from ottla.pipeline.stream import Progress as BatchProgress
    from ottla.pipeline.stream import Running, StreamOptions
    from ottla.spark.errors import cause_of
    from ottla.spark.wire import ClusterClient

    job = {"shop": shop.job, "totals": totals.job}[name](options.terms.topics)
    run = options.run_id or uuid.uuid4().hex[:12]
    cluster = ClusterClient(Connecting(options.place.bootstrap))
    total = sum(end - start for start, end in cluster.ranges(job.source, committed=True).values())
    cluster.close()
    settings = StreamOptions(
        options.place.bootstrap,
        options.transactional_id,
        options.checkpoint,
        run,
        options.batch_records,
        is_bounded=not options.forever,
        by_driver=options.sink == "driver",
        fails_on_data_loss=not options.accept_data_loss,
        values=FORMATS[options.format],
        transaction_timeout_ms=options.transaction_timeout_ms,
        terms=options.terms,
        mark_log_topic=options.mark_log_topic,
        state_store=options.state_store,
    )
    spark = _session(options.place, job.name)
    with Progress(console=console, disable=options.forever) as progress:
        task = progress.add_task(job.source, total=total)

        unhandled: Counter[str] = Counter()

        def show_progress(done: BatchProgress) -> None:
            report = done.report
            unhandled.update({"dead letters": done.dead_letters, "too late": done.late})
            how = "was committed before" if report.is_replay else f"{report.records:,} written, commit {report.commit_ms:.1f} ms"
            how += "".join(
                f", {count:,} {what}" for count, what in ((done.dead_letters, "dead letters"), (done.late, "too late")) if count
            )
            console.print(f"batch {report.batch}: {done.rows:,} rows, {done.rows_per_second:,.0f}/s, {done.behind:,} behind; {how}")
            progress.update(task, completed=total - done.behind)

        def retry(batch: int, error: BaseException) -> None:
            console.print(f"batch {batch}: aborted and begun again ({cause_of(str(error))})")

        running = Running(spark, job, settings, retry)
        with noted_signals(signal.SIGINT, signal.SIGTERM) as signals:
            running.finish(show_progress, lambda: bool(signals))
        if signals:
            console.print(f"{job.name}, run {run}: stopped by {signals[0].name}; no transaction is left open")
            return 128 + signals[0]
        progress.update(task, completed=total)
    left_over = "".join(f"; {count:,} {what}" for what, count in unhandled.items() if count)
    console.print(f"{job.name}, run {run}: everything that was there is done{left_over}")
    return 0


def run_export(options: ExportSettings) -> int:
    """Run the job export; returns the exit code. Raises `PipelineError`."""
    from ottla.pipeline.jobs.export import ExportOptions, export

    settings = ExportOptions(
        options.place.bootstrap, options.topic, options.to, options.data_dir, options.part_offsets, options.group
    )
    spark = _session(options.place, "export")
    with Progress(console=console) as progress:
        task = progress.add_task("parts", total=None)

        def show_progress(done: int, parts: int, records: int) -> None:
            progress.update(task, completed=done, total=parts)

        total = export(spark, settings, show_progress)
        progress.update(task, total=1, completed=1)
    console.print(f"export of {options.topic}: {total:,} records written to {options.to}")
    return 0


def run_audit(options: AuditSettings) -> int:
    """Run the job audit; returns `UNSOUND_EXIT` where something is wrong, else 0. Raises `PipelineError`."""
    from ottla.pipeline.jobs.audit import AuditOptions, audit

    settings = AuditOptions(
        options.place.bootstrap, options.totals, options.export, options.exported_topic, FORMATS[options.format], options.terms
    )
    audit_result = audit(_session(options.place, "audit"), settings)
    topics = Table(title="What lies at the offsets", title_justify="left")
    columns = ("offsets", "committed", "aborted", "open", "markers", "unexplained")
    for column in ("topic", *columns):
        topics.add_column(column, justify="left" if column == "topic" else "right")
    for row in audit_result.topics:
        topics.add_row(row.topic, *(f"{getattr(row, column):,}" for column in columns))
    rules = Table(title="Findings", title_justify="left")
    for column in ("rule", "broken by", "such as"):
        rules.add_column(column, justify="right" if column == "broken by" else "left")
    for finding in audit_result.findings:
        colour = "green" if finding.count == 0 else "red"
        rules.add_row(finding.rule, f"[{colour}]{finding.count:,}", ", ".join(finding.examples))
    tables.print(topics, rules)
    return 0 if audit_result.is_sound else UNSOUND_EXIT
