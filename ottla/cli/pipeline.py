"""``ottla pipeline``: runs jobs on Spark. Spark is imported only to run a job, not to show help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from ottla.cli.commands import POSIX_MODULES, CommandGroup, Lazy, Refused
from ottla.cli.options import COUNT
from ottla.cli.pipeline_flags import format_option, named_topics, on_terms, placed, streaming
from ottla.pipeline.schemas import PURCHASES
from ottla.pipeline.settings import AuditSettings, ExportSettings, GenerateSettings, StreamSettings
from ottla.process import interrupt_on_ctrl_c, interrupted_exit

DEFAULT_ROWS = 200_000
rows_option = click.option(
    "--rows", type=COUNT, default=DEFAULT_ROWS, metavar="N", help=f"Number of purchases (default: {DEFAULT_ROWS})."
)


@contextmanager
def running_job() -> Iterator[None]:
    """Report in one line a missing package, a `PipelineError`, or a signal that stopped the job.

    In the block Ctrl-C raises KeyboardInterrupt, unless the job handles SIGINT itself.
    """
    try:
        # The slow import precedes the signal handlers, so that a signal during the import ends the process at once.
        import_module("ottla.pipeline.running")
        from ottla.pipeline.signals import Stopped
        from ottla.spark.errors import PipelineError

        interrupt_on_ctrl_c()
        try:
            yield
        except PipelineError as error:
            raise Refused(str(error), exit_code=1) from None
        except Stopped as stopped:
            said = f"stopped by {stopped.number.name}; no transaction is left open"
            raise Refused(said, exit_code=interrupted_exit(stopped.number)) from None
    except ModuleNotFoundError as missing:
        if missing.name in POSIX_MODULES:
            raise
        raise Refused(f"the pipeline needs {missing.name}: pip install 'ottla[pipeline]'", exit_code=1) from None


LAZY = {"demo": Lazy("ottla.demo.pipeline_command", "Run all jobs of the pipeline on a broker of their own.")}


@click.group("pipeline", cls=CommandGroup, lazy=LAZY, help="Run Spark jobs from topic to topic, exactly once.")
def command() -> None:
    pass


@command.command("generate", help="Create the topics and write purchases, which depend on the seed only.")
@placed
@format_option
@rows_option
@click.option("--seed", type=int, default=1, metavar="N", help="Seed of the purchases (default: 1).")
@click.option("--partitions", type=COUNT, default=4, metavar="N", help="Partitions of each topic that is created (default: 4).")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Write in transactions of this id, so that an interrupted run continues and a repeated run adds nothing.",
)
@named_topics
def generate(**options: Any) -> int:
    settings = GenerateSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_generate

        return run_generate(settings)


@command.command("shop", help="Turn purchases into invoices and shipments, in one transaction per batch.")
@streaming("shop")
def shop(**options: Any) -> int:
    return _stream("shop", options)


@command.command("totals", help="Maintain totals per user, product and hour.")
@streaming("totals")
def totals(**options: Any) -> int:
    return _stream("totals", options)


def _stream(name: str, options: dict[str, Any]) -> int:
    settings = StreamSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_stream

        return run_stream(name, settings)


@command.command(
    "export", help="Write committed records to Parquet, each record once. An interrupted export continues when it is run again."
)
@placed
@click.option("--topic", default=PURCHASES, metavar="TOPIC", help=f"Topic to export (default: {PURCHASES}).")
@click.option("--to", required=True, metavar="DIR", help="Directory for the Parquet files, on any filesystem that Spark supports.")
@click.option("--data-dir", metavar="DIR", help="Data directory whose segment files are read instead of a broker.")
@click.option(
    "--part-offsets",
    type=COUNT,
    default=1_000_000,
    metavar="N",
    help="Approximate number of offsets per part; a part is written atomically (default: 1000000).",
)
@click.option("--group", metavar="GROUP", help="Group whose offsets are committed with each file of the export.")
def export(**options: Any) -> int:
    settings = ExportSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_export

        return run_export(settings)


@command.command(
    "audit", help="Check that every purchase was handled once. Exit with 0 if so, else list the errors and exit with 2."
)
@placed
@format_option
@on_terms
@click.option("--totals", is_flag=True, help="Also compare the totals with the purchases.")
@click.option("--export", metavar="DIR", help="Directory of an export to compare with its topic.")
@click.option("--exported-topic", default=PURCHASES, metavar="TOPIC", help=f"Topic of the export (default: {PURCHASES}).")
def audit(**options: Any) -> int:
    settings = AuditSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_audit

        return run_audit(settings)
