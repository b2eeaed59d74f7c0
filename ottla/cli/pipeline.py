"""``ottla pipeline``: runs jobs on Spark. Spark is imported when a job runs, and not for help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from ottla.cli.commands import CommandGroup, Lazy, Refused
from ottla.cli.options import COUNT
from ottla.cli.pipeline_flags import format_option, named_topics, on_terms, placed, streaming
from ottla.pipeline.schemas import PURCHASES
from ottla.pipeline.settings import AuditSettings, ExportSettings, GenerateSettings, StreamSettings
from ottla.process import interrupt_on_ctrl_c

DEFAULT_ROWS = 200_000
rows_option = click.option(
    "--rows", type=COUNT, default=DEFAULT_ROWS, metavar="N", help=f"how many purchases (default: {DEFAULT_ROWS})"
)


@contextmanager
def running_job() -> Iterator[None]:
    """Turn a missing package, a `PipelineError` and a signal that has stopped the job into one line.

    From here on Ctrl-C raises KeyboardInterrupt, where the job does not handle it itself.
    """
    try:
        # The job's imports come first, while a signal still ends the process at once.
        import_module("ottla.pipeline.running")
        from ottla.pipeline.signals import Stopped
        from ottla.spark.errors import PipelineError

        interrupt_on_ctrl_c()
        try:
            yield
        except PipelineError as error:
            raise Refused(str(error), exit_code=1) from None
        except Stopped as stopped:
            # What shells give a command that a signal has ended.
            said = f"stopped by {stopped.number.name}; no transaction is left open"
            raise Refused(said, exit_code=128 + stopped.number) from None
    except ModuleNotFoundError as missing:
        raise Refused(f"the pipeline needs {missing.name}: pip install 'ottla[pipeline]'", exit_code=1) from None


LAZY = {"demo": Lazy("ottla.demo.pipeline_command", "Runs all of these jobs, on a broker that is started for them.")}


@click.group("pipeline", cls=CommandGroup, lazy=LAZY, help="Spark jobs on Kafka topics, exactly once.")
def command() -> None:
    pass


@command.command("generate", help="Makes the topics and writes purchases, the same for the same seed.")
@placed
@format_option
@rows_option
@click.option("--seed", type=int, default=1, metavar="N", help="another one gives other purchases (default: 1)")
@click.option("--partitions", type=COUNT, default=4, metavar="N", help="of each topic that is made (default: 4)")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="by Spark's tasks and in transactions: cut off it goes on, run again it adds nothing",
)
@named_topics
def generate(**options: Any) -> int:
    settings = GenerateSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_generate

        return run_generate(settings)


@command.command("shop", help="Turns purchases into invoices and shipments, in one transaction a batch.")
@streaming("shop")
def shop(**options: Any) -> int:
    return _stream("shop", options)


@command.command("totals", help="Keeps running totals a user, product and hour, as they change.")
@streaming("totals")
def totals(**options: Any) -> int:
    return _stream("totals", options)


def _stream(name: str, options: dict[str, Any]) -> int:
    settings = StreamSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_stream

        return run_stream(name, settings)


@command.command("export", help="Writes committed records to Parquet, each once; cut off it goes on when it is run again.")
@placed
@click.option("--topic", default=PURCHASES, metavar="TOPIC", help=f"whose records (default: {PURCHASES})")
@click.option("--to", required=True, metavar="DIR", help="on any filesystem that Spark knows")
@click.option("--data-dir", metavar="DIR", help="read the broker's segment files there, and ask the broker nothing")
@click.option(
    "--part-offsets",
    type=COUNT,
    default=1_000_000,
    metavar="N",
    help="about as many make a part, which is written as a whole (default: 1000000)",
)
@click.option("--group", metavar="GROUP", help="a group that is committed how far the export is, with each part")
def export(**options: Any) -> int:
    settings = ExportSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_export

        return run_export(settings)


@command.command("audit", help="Exits 0 if every purchase was handled once, else 2, and names those that were not.")
@placed
@format_option
@on_terms
@click.option("--totals", is_flag=True, help="hold the totals against the purchases as well")
@click.option("--export", metavar="DIR", help="hold an export against its topic as well")
@click.option("--exported-topic", default=PURCHASES, metavar="TOPIC", help=f"which was exported (default: {PURCHASES})")
def audit(**options: Any) -> int:
    settings = AuditSettings(**options)
    with running_job():
        from ottla.pipeline.running import run_audit

        return run_audit(settings)
