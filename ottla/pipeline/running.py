"""Runs a job of ``ottla pipeline``, shows the progress, and chooses the exit code."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from ottla.client.security.client_config import Connecting
from ottla.pipeline.settings import AuditSettings, ExportSettings, GenerateSettings, JobPlace, StreamSettings
from ottla.pipeline.signals import Stopped, noted_signals, stopping_signals
from ottla.spark.schemas.formats import FORMATS

if TYPE_CHECKING:
    from ottla.pipeline.stream import Job, StreamOptions
    from ottla.spark.sink.progress_listener import StreamProgress

ENDING = (signal.SIGINT, signal.SIGTERM)
CANCEL_INTERVAL_S = 0.2
"""Interval, in seconds, of checks whether a job has ended, and of cancelling the job's Spark jobs after a signal."""
UNSOUND_EXIT = 2
"""Exit code of a job that ran and found errors."""

Result = TypeVar("Result")

console = Console(stderr=True)
tables = Console()


def run_generate(options: GenerateSettings) -> int:
    """Run the job ``generate`` and return the exit code. Raises `PipelineError`, and `Stopped` after a signal."""
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

    with stopping_signals(*ENDING):
        spark = _session(options.place, "generate")
        with noted_signals(*ENDING) as signals:

            def show_progress(report: Any) -> None:
                console.print(f"part {report.batch}: {'was written before' if report.is_replay else f'{report.records:,} records'}")
                # Each part is a transaction, so no transaction is open between two parts.
                if signals:
                    raise Stopped(signals[0])

            total = generate(spark, settings, show_progress)
    console.print(f"generate: {total:,} records written to {topic}")
    return 0


def _session(place: JobPlace, name: str) -> Any:
    """Start the Spark session. A signal raises `Stopped` only after Spark's JVM has started: if Python exited earlier, the JVM
    would never exit."""
    from ottla.spark.session.session import session

    with noted_signals(*ENDING) as signals:
        spark = session(f"ottla-{name}", master=place.master, cores=place.cores)
    if signals:
        raise Stopped(signals[0])
    return spark


def _until_stopped(spark: Any, work: Callable[[], Result]) -> Result:
    """Run ``work`` in a thread and return the result. A signal cancels the Spark jobs of ``work``, and `Stopped` is raised when
    ``work`` has ended."""
    from py4j.protocol import Py4JError

    with noted_signals(*ENDING) as signals, ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        while not wait([running], CANCEL_INTERVAL_S).done:
            if signals:
                # Cancel repeatedly, because ``work`` may start another Spark job. The call fails if the JVM has exited.
                with suppress(Py4JError, OSError):
                    spark.sparkContext.cancelAllJobs()
    if signals:
        raise Stopped(signals[0])
    return running.result()


def run_stream(name: str, options: StreamSettings) -> int:
    """Run a streaming job and return the exit code. Raises `PipelineError`, and `Stopped` after a signal."""
    from ottla.client.admin.offsets import ranges
    from ottla.pipeline.jobs import shop, totals
    from ottla.spark.cluster.client import cluster_client

    job = {"shop": shop.job, "totals": totals.job}[name](options.terms.topics)
    settings = _stream_options(options)
    with stopping_signals(*ENDING):
        with closing(cluster_client(Connecting(options.place.bootstrap))) as cluster:
            total = sum(end - start for start, end in ranges(cluster, job.source, committed=True).values())
        spark = _session(options.place, job.name)
        # A transaction may be open from now on, so signals no longer raise an exception.
        with noted_signals(*ENDING) as signals:
            left_over = _watched(spark, job, settings, total, signals)
            if signals:
                raise Stopped(signals[0])
    console.print(f"{job.name}, run {settings.run}: all available records are processed{left_over}")
    return 0


def _stream_options(options: StreamSettings) -> StreamOptions:
    from ottla.pipeline.stream import StreamOptions

    return StreamOptions(
        options.place.bootstrap,
        options.transactional_id,
        options.checkpoint,
        options.run_id or uuid.uuid4().hex[:12],
        options.batch_records,
        is_bounded=not options.forever,
        by_driver=options.sink == "driver",
        fails_on_data_loss=not options.accept_data_loss,
        values=FORMATS[options.format],
        transaction_timeout_ms=options.transaction_timeout_ms,
        terms=options.terms,
        progress_topic=options.progress_topic,
        state_store=options.state_store,
    )


def _watched(spark: Any, job: Job, settings: StreamOptions, total: int, signals: list[signal.Signals]) -> str:
    """Run the job until it ends or ``signals`` has a signal. Returns the counts of dead letters, late and repeated rows as text."""
    from ottla.pipeline.stream import Running
    from ottla.spark.errors import cause_of

    unhandled: Counter[str] = Counter()
    with Progress(console=console, disable=not settings.is_bounded) as progress:
        task = progress.add_task(job.source, total=total)

        def show_progress(done: StreamProgress) -> None:
            report = done.report
            apart = {"dead letters": done.dead_letters, "too late": done.late, "repeated": done.repeated}
            unhandled.update(apart)
            how = "was committed before" if report.is_replay else f"{report.records:,} written, commit {report.commit_ms:.1f} ms"
            how += "".join(f", {count:,} {what}" for what, count in apart.items() if count)
            console.print(f"batch {report.batch}: {done.rows:,} rows, {done.rows_per_second:,.0f}/s, lag {done.behind:,}; {how}")
            progress.update(task, completed=total - done.behind)

        def retry(batch: int, error: BaseException) -> None:
            console.print(f"batch {batch}: aborted and retried ({cause_of(str(error))})")

        Running(spark, job, settings, retry).finish(show_progress, lambda: bool(signals))
        if not signals:
            progress.update(task, completed=total)
    return "".join(f"; {count:,} {what}" for what, count in unhandled.items() if count)


def run_export(options: ExportSettings) -> int:
    """Run the job ``export`` and return the exit code. Raises `PipelineError`, and `Stopped` after a signal."""
    from ottla.pipeline.jobs.export import ExportOptions, export

    settings = ExportOptions(
        options.place.bootstrap, options.topic, options.to, options.data_dir, options.part_offsets, options.group
    )
    with stopping_signals(*ENDING):
        spark = _session(options.place, "export")
        with Progress(console=console) as progress:
            task = progress.add_task("parts", total=None)

            def show_progress(done: int, parts: int, records: int) -> None:
                progress.update(task, completed=done, total=parts)

            total = _until_stopped(spark, lambda: export(spark, settings, show_progress))
            progress.update(task, total=1, completed=1)
    console.print(f"export of {options.topic}: {total:,} records written to {options.to}")
    return 0


def run_audit(options: AuditSettings) -> int:
    """Run the job ``audit``. Returns 0, or `UNSOUND_EXIT` for errors. Raises `PipelineError`, and `Stopped` after a signal."""
    from ottla.pipeline.jobs.audit import AuditOptions, audit

    settings = AuditOptions(
        options.place.bootstrap, options.totals, options.export, options.exported_topic, FORMATS[options.format], options.terms
    )
    with stopping_signals(*ENDING):
        spark = _session(options.place, "audit")
        audit_result = _until_stopped(spark, lambda: audit(spark, settings))
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
        colour = "green" if finding.count == 0 else "yellow" if finding.is_note else "red"
        count = f"[{colour}]{finding.count:,}[/]{' (noted)' if finding.is_note and finding.count else ''}"
        rules.add_row(finding.rule, count, ", ".join(finding.examples))
    tables.print(topics, rules)
    return 0 if audit_result.is_sound else UNSOUND_EXIT
