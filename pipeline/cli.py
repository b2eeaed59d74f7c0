"""``ottla pipeline JOB``: flags, one TOML file for what is always the same, and what a person sees of a job."""

from __future__ import annotations

import argparse
import tomllib
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from pipeline.errors import PipelineError
from pipeline.exactly_once import Report
from pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS

UNSOUND_EXIT = 2
"""The job ran, and what it found is wrong."""

console = Console(stderr=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla pipeline", description="Spark jobs on Kafka topics, exactly once.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT,...")
    common.add_argument("--config", type=Path, metavar="FILE.toml", help="flags by their names; those on the command line win")
    spark = argparse.ArgumentParser(add_help=False)
    spark.add_argument("--master", help="Spark's; default is this machine, or what spark-submit says")
    spark.add_argument("--cores", type=int, default=2, help="of this machine")
    jobs = parser.add_subparsers(dest="job", required=True)

    generate = jobs.add_parser("generate", parents=[common], help="make the topics and write purchases, the same for the same seed")
    generate.add_argument("--rows", type=int, default=200_000)
    generate.add_argument("--seed", type=int, default=1)
    generate.add_argument("--partitions", type=int, default=4)

    shop = jobs.add_parser("shop", parents=[common, spark], help="purchases to invoices and shipments, in one transaction a batch")
    shop.add_argument("--transactional-id", default="shop")
    shop.add_argument("--checkpoint", default=".ottla/checkpoints/shop", metavar="DIR")
    shop.add_argument("--batch-records", type=int, default=100_000)
    shop.add_argument("--run-id", default=None, help="stands in the headers of all that is written; default is a new one")
    shop.add_argument(
        "--sink", choices=("tasks", "driver"), default="tasks", help="who writes; driver needs no transaction.version 2"
    )
    shop.add_argument("--forever", action="store_true", help="go on when everything is read; Ctrl-C ends it")

    jobs.add_parser(
        "audit", parents=[common, spark], help="exit 0 if every purchase was handled once, else name those that were not"
    )
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Flags over the TOML file over the defaults. Raises `PipelineError`."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.config is None:
        return given
    try:
        settings = tomllib.loads(given.config.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise PipelineError(f"--config {given.config}: {error}") from None
    flags: list[str] = []
    for name, value in settings.items():
        if name.replace("-", "_") not in vars(given):
            raise PipelineError(f"--config {given.config}: {given.job} has no setting {name!r}")
        flags += ([f"--{name}"] if value else []) if isinstance(value, bool) else [f"--{name}", str(value)]
    return parser.parse_args([given.job, *flags, *arguments[1:]])


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, 1 for what went wrong, 2 for what an audit found."""
    run: dict[str, Callable[[argparse.Namespace], int]] = {"generate": _generate, "shop": _shop, "audit": _audit}
    try:
        options = parse(arguments)
        return run[options.job](options)
    except PipelineError as error:
        console.print(f"ottla pipeline: {error}", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130


def _generate(options: argparse.Namespace) -> int:
    from pipeline.generate import Shape, purchases
    from pipeline.topics import create, fill

    create(options.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), options.partitions)
    rows = purchases(Shape(options.rows, options.seed))
    fill(options.bootstrap, PURCHASES, track(rows, "purchases", total=options.rows, console=console))
    return 0


def _session(options: argparse.Namespace, name: str) -> Any:
    from pipeline.session import session

    return session(f"ottla-{name}", master=options.master, cores=options.cores)


def _shop(options: argparse.Namespace) -> int:
    from pipeline.jobs import shop
    from pipeline.wire import Cluster

    run = options.run_id or uuid.uuid4().hex[:12]
    cluster = Cluster(options.bootstrap)
    total = sum(end - start for start, end in cluster.ranges(PURCHASES).values())
    cluster.close()
    spark = _session(options, "shop")
    settings = shop.ShopOptions(
        options.bootstrap,
        options.transactional_id,
        options.checkpoint,
        run,
        options.batch_records,
        is_bounded=not options.forever,
        by_driver=options.sink == "driver",
    )
    with Progress(console=console, disable=options.forever) as progress:
        task = progress.add_task("purchases", total=total)

        def report(done: Report, seconds: float) -> None:
            what = "was committed before" if done.is_replay else f"{done.records:,} records, {done.records / seconds:,.0f}/s"
            console.print(f"batch {done.batch}: {what}, commit {done.commit_ms:.1f} ms")
            progress.advance(task, options.batch_records)

        def retry(batch: int, error: BaseException) -> None:
            console.print(f"batch {batch}: aborted and begun again ({shop.cause_of(str(error))})")

        query = shop.start(spark, settings, report, retry)
        shop.finish(query)
        progress.update(task, completed=total)
    console.print(f"run {run}: everything that was there is done")
    return 0


def _audit(options: argparse.Namespace) -> int:
    from pipeline.jobs.audit import audit

    found = audit(_session(options, "audit"), options.bootstrap)
    topics = Table(title="Offsets", title_justify="left")
    for column in ("topic", "offsets", "committed", "aborted", "markers"):
        topics.add_column(column, justify="left" if column == "topic" else "right")
    for row in found.topics:
        topics.add_row(row.topic, *(f"{n:,}" for n in (row.offsets, row.committed, row.aborted, row.markers)))
    rules = Table(title="Findings", title_justify="left")
    for column in ("rule", "broken by", "such as"):
        rules.add_column(column, justify="right" if column == "broken by" else "left")
    for finding in found.findings:
        colour = "green" if finding.count == 0 else "red"
        rules.add_row(finding.rule, f"[{colour}]{finding.count:,}", ", ".join(finding.examples))
    Console().print(topics, rules)
    return 0 if found.is_sound else UNSOUND_EXIT
