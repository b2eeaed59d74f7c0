"""``ottla spark``: helps with streams that write exactly once from Spark. Spark itself is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.commands import POSIX_MODULES, CommandGroup, Refused
from ottla.cli.findings import show_findings
from ottla.cli.options import COUNT, asks

if TYPE_CHECKING:
    from ottla.client.finding import Finding

DOCTOR_HELP = """Check whether a stream can write exactly once, before it starts.

Check Python, Spark, packages and Java of this machine, and versions, rights, topics, timeouts and clocks of the cluster. Nothing
in the cluster is changed, and no running stream is fenced. Exit with 1 if a check fails."""


@click.group("spark", cls=CommandGroup, help="Help with Spark streams that write exactly once.")
def command() -> None:
    pass


@command.command("doctor", help=DOCTOR_HELP, short_help="Check machine and cluster before a stream starts.")
@asks
@click.option("--transactional-id", required=True, metavar="ID", help="Transactional id of the stream.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Topic that the stream writes to; repeatable.")
@click.option("--transaction-timeout-ms", type=COUNT, metavar="MS", help="Transaction timeout of a batch (default: 15 min).")
@click.option("--progress-topic", metavar="TOPIC", help="Topic of the progress records (default: ottla-progress).")
@click.option("--source-topic", "inputs", multiple=True, metavar="TOPIC", help="Topic of this cluster that it reads; repeatable.")
@click.option("--mark-topic", metavar="TOPIC", help="The stream's option mark.topic.")
@click.option("--writer", metavar="WRITER", help="The stream's option writer: tasks (default) or driver.")
def doctor(bootstrap: str, timeout_s: float, as_json: bool, topics: tuple[str, ...], inputs: tuple[str, ...], **given: Any) -> int:
    try:
        findings = _findings(bootstrap, timeout_s, topics, inputs, given)
    except ModuleNotFoundError as missing:
        if missing.name in POSIX_MODULES:
            raise
        raise Refused(f"the doctor needs {missing.name}: pip install 'ottla[spark]'", exit_code=1) from None
    return 1 if show_findings(bootstrap, findings, as_json=as_json) else 0


def _findings(
    bootstrap: str, timeout_s: float, topics: tuple[str, ...], inputs: tuple[str, ...], given: dict[str, Any]
) -> list[Finding]:
    from contextlib import closing

    import msgspec

    from ottla.cli.command_config import connecting
    from ottla.process import interrupt_on_ctrl_c
    from ottla.spark.cluster.client import OLDEST, cluster_client
    from ottla.spark.doctor.cluster_checks import check_cluster
    from ottla.spark.doctor.machine_checks import check_machine
    from ottla.spark.errors import PipelineError
    from ottla.spark.sink import driver
    from ottla.spark.sink.options import parse_options

    interrupt_on_ctrl_c()
    options = {name.replace("_", "."): value for name, value in given.items() if value is not None}
    try:
        options |= {"topics": ",".join(topics)} if topics else {}
        parsed = parse_options({"kafka.bootstrap.servers": bootstrap, **options})
        connected = msgspec.structs.replace(parsed, connecting=connecting(bootstrap))
        oldest = driver.OLDEST if connected.writer == "driver" else OLDEST
        with closing(cluster_client(connected.connecting, timeout_s, oldest)) as cluster:
            return [*check_machine(), *check_cluster(cluster, connected, inputs)]
    except PipelineError as error:
        raise Refused(str(error)) from None
