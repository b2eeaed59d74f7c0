"""``ottla pipeline JOB``: flags, one TOML file for what is always the same, and what a person sees of a job."""

from __future__ import annotations

import argparse
import signal
import tomllib
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from ottla.pipeline.dead_letters import MAX_RUN_CHARACTERS
from ottla.pipeline.schemas import MAX_AHEAD_MS, PURCHASES, Terms, Topics
from ottla.pipeline.signals import noted_signals
from ottla.pipeline.stream import STATE_STORES
from ottla.spark.connecting import Connecting
from ottla.spark.errors import PipelineError
from ottla.spark.formats import FORMATS
from ottla.spark.transaction import TRANSACTION_TIMEOUT_MS

UNSOUND_EXIT = 2
"""The job ran, and what it found is wrong."""

console = Console(stderr=True)
tables = Console()


def _count(text: str) -> int:
    """A number of things, one at least."""
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _run_id(text: str) -> str:
    if not text or len(text) > MAX_RUN_CHARACTERS:
        raise argparse.ArgumentTypeError(f"a run's id has 1 to {MAX_RUN_CHARACTERS} characters, as it stands in every record")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla pipeline", description="Spark jobs on Kafka topics, exactly once.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT,...")
    common.add_argument("--config", type=Path, metavar="FILE.toml", help="flags by their names; those on the command line win")
    values = argparse.ArgumentParser(add_help=False)
    values.add_argument("--format", choices=sorted(FORMATS), default="json", help="of the records' values")
    spark = argparse.ArgumentParser(add_help=False)
    spark.add_argument("--master", help="Spark's; default is this machine, or what spark-submit says")
    spark.add_argument("--cores", type=_count, default=2, help="of this machine")
    jobs = parser.add_subparsers(dest="job", required=True)

    jobs.add_parser("demo", help="all of these jobs, on a broker that is started for them")
    generate = jobs.add_parser(
        "generate", parents=[common, values, spark], help="make the topics and write purchases, the same for the same seed"
    )
    generate.add_argument("--rows", type=_count, default=200_000)
    generate.add_argument("--seed", type=int, default=1)
    generate.add_argument("--partitions", type=_count, default=4)
    generate.add_argument(
        "--transactional-id",
        metavar="ID",
        help="by Spark's tasks and in transactions: cut off it goes on, run again it adds nothing",
    )
    _add_topics(generate)

    for name, what in (
        ("shop", "purchases to invoices and shipments, in one transaction a batch"),
        ("totals", "running totals a user, product and hour, as they change"),
    ):
        _add_stream(jobs.add_parser(name, parents=[common, values, spark], help=what), name)

    export = jobs.add_parser("export", parents=[common, spark], help="committed records to Parquet, each once; resumable")
    export.add_argument("--topic", default=PURCHASES)
    export.add_argument("--to", required=True, metavar="DIR", help="on any filesystem that Spark knows")
    export.add_argument("--data-dir", metavar="DIR", help="read the broker's segment files there, and ask the broker nothing")
    export.add_argument(
        "--part-offsets", type=_count, default=1_000_000, help="about as many make a part, which is written as a whole"
    )

    export.add_argument("--group", help="a group that is committed how far the export is, with each part")

    audit = jobs.add_parser(
        "audit", parents=[common, values, spark], help="exit 0 if every purchase was handled once, else name those that were not"
    )
    _add_terms(audit)
    audit.add_argument("--totals", action="store_true", help="hold the totals against the purchases as well")
    audit.add_argument("--export", metavar="DIR", help="hold an export against its topic as well")
    audit.add_argument("--exported-topic", default=PURCHASES)
    return parser


def _add_stream(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--transactional-id", default=name)
    parser.add_argument("--checkpoint", default=f".ottla/checkpoints/{name}", metavar="DIR")
    parser.add_argument("--batch-records", type=_count, default=100_000)
    parser.add_argument(
        "--transaction-timeout-ms", type=_count, default=TRANSACTION_TIMEOUT_MS, help="how long a batch may take (default: 15 min)"
    )
    _add_terms(parser)
    parser.add_argument(
        "--run-id", type=_run_id, default=None, help="stands in the headers of all that is written; default is a new one"
    )
    parser.add_argument(
        "--sink", choices=("tasks", "driver"), default="tasks", help="who writes; driver needs no transaction.version 2"
    )
    parser.add_argument(
        "--mark-log-topic", metavar="TOPIC", help="a compacted topic that has the marks as well: they outlive the group's offsets"
    )
    parser.add_argument(
        "--state-store", choices=sorted(STATE_STORES), default="memory", help="where totals are kept; rocksdb for millions of keys"
    )
    parser.add_argument("--forever", action="store_true", help="go on when everything is read; Ctrl-C ends it")
    parser.add_argument("--accept-data-loss", action="store_true", help="go on past records that retention has removed unread")


def _add_topics(parser: argparse.ArgumentParser) -> None:
    """What the topics are called, by their parts in the shop."""
    for part, name in msgspec.structs.asdict(Topics()).items():
        flag = f"--{part.replace('_', '-')}-topic"
        parser.add_argument(flag, default=name, metavar="TOPIC", help=f"default: {name}")


def _topics(options: argparse.Namespace) -> Topics:
    return Topics(**{part: getattr(options, f"{part}_topic") for part in msgspec.structs.asdict(Topics())})


def _add_terms(parser: argparse.ArgumentParser) -> None:
    """What a job and the audit of what it did have to agree on."""
    _add_topics(parser)
    parser.add_argument(
        "--max-ahead-ms",
        type=_count,
        default=MAX_AHEAD_MS,
        help="how far a purchase's time may be ahead of its record's before it is a dead letter (default: 1 hour)",
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Flags over the TOML file over the defaults. Raises `PipelineError`."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if getattr(given, "config", None) is None:
        return given
    try:
        settings = tomllib.loads(given.config.read_text())
    except (OSError, ValueError) as error:
        raise PipelineError(f"--config {given.config}: {error}") from None
    flags: list[str] = []
    for name, value in settings.items():
        if name.replace("-", "_") not in vars(given):
            raise PipelineError(f"--config {given.config}: {given.job} has no setting {name!r}")
        flags += ([f"--{name}"] if value else []) if isinstance(value, bool) else [f"--{name}", str(value)]
    return parser.parse_args([given.job, *flags, *arguments[1:]])


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, 1 for what went wrong, 2 for what an audit found."""
    run: dict[str, Callable[[argparse.Namespace], int]] = {
        "demo": _demo,
        "generate": _generate,
        "shop": _stream,
        "totals": _stream,
        "export": _export,
        "audit": _audit,
    }
    try:
        options = parse(arguments)
        return run[options.job](options)
    except PipelineError as error:
        console.print(f"ottla pipeline: {error}", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130


def _demo(options: argparse.Namespace) -> int:
    """Its broker is not among what a job may know of."""
    raise PipelineError("the demo starts a broker of its own: ottla pipeline demo")


def _generate(options: argparse.Namespace) -> int:
    from ottla.pipeline.generate import Workload, purchases
    from ottla.pipeline.topics import create, fill

    topics = _topics(options)
    create(options.bootstrap, msgspec.structs.astuple(topics), options.partitions)
    workload = Workload(options.rows, options.seed)
    if options.transactional_id is not None:
        return _generate_by_spark(options, workload, topics.source)
    rows = purchases(workload, FORMATS[options.format])
    fill(options.bootstrap, topics.source, track(rows, "purchases", total=options.rows, console=console))
    return 0


def _generate_by_spark(options: argparse.Namespace, workload: Any, topic: str) -> int:
    from ottla.pipeline.jobs.generate import GenerateOptions, generate

    settings = GenerateOptions(options.bootstrap, topic, workload, options.format, options.transactional_id)

    def show_progress(report: Any) -> None:
        console.print(f"part {report.batch}: {'was written before' if report.is_replay else f'{report.records:,} records'}")

    total = generate(_session(options, "generate"), settings, show_progress)
    console.print(f"generate: {total:,} records written to {topic}")
    return 0


def _session(options: argparse.Namespace, name: str) -> Any:
    from ottla.spark.session import session

    return session(f"ottla-{name}", master=options.master, cores=options.cores)


def _stream(options: argparse.Namespace) -> int:
    from ottla.pipeline.jobs import shop, totals
    from ottla.pipeline.stream import Progress as BatchProgress
    from ottla.pipeline.stream import Running, StreamOptions
    from ottla.spark.errors import cause_of
    from ottla.spark.wire import ClusterClient

    topics = _topics(options)
    job = {"shop": shop.job, "totals": totals.job}[options.job](topics)
    run = options.run_id or uuid.uuid4().hex[:12]
    cluster = ClusterClient(Connecting(options.bootstrap))
    total = sum(end - start for start, end in cluster.ranges(job.source, committed=True).values())
    cluster.close()
    settings = StreamOptions(
        options.bootstrap,
        options.transactional_id,
        options.checkpoint,
        run,
        options.batch_records,
        is_bounded=not options.forever,
        by_driver=options.sink == "driver",
        fails_on_data_loss=not options.accept_data_loss,
        values=FORMATS[options.format],
        transaction_timeout_ms=options.transaction_timeout_ms,
        terms=Terms(topics=topics, max_ahead_ms=options.max_ahead_ms),
        mark_log_topic=options.mark_log_topic,
        state_store=options.state_store,
    )
    spark = _session(options, job.name)
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


def _export(options: argparse.Namespace) -> int:
    from ottla.pipeline.jobs.export import ExportOptions, export

    settings = ExportOptions(options.bootstrap, options.topic, options.to, options.data_dir, options.part_offsets, options.group)
    spark = _session(options, "export")
    with Progress(console=console) as progress:
        task = progress.add_task("parts", total=None)

        def show_progress(done: int, parts: int, records: int) -> None:
            progress.update(task, completed=done, total=parts)

        total = export(spark, settings, show_progress)
        progress.update(task, total=1, completed=1)
    console.print(f"export of {options.topic}: {total:,} records written to {options.to}")
    return 0


def _audit(options: argparse.Namespace) -> int:
    from ottla.pipeline.jobs.audit import AuditOptions, audit

    terms = Terms(topics=_topics(options), max_ahead_ms=options.max_ahead_ms)
    settings = AuditOptions(
        options.bootstrap, options.totals, options.export, options.exported_topic, FORMATS[options.format], terms
    )
    audit_result = audit(_session(options, "audit"), settings)
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
