"""``ottla recover``: finds damaged parts of logs in a data directory, and discards them with ``--discard``."""

from __future__ import annotations

import click

from ottla.cli.options import Checked, json_option, topic_partition
from ottla.process import interrupt_on_ctrl_c

LOG = Checked("topic_partition", topic_partition)
HELP = """Show the damaged parts of logs in the directory of a stopped broker: their size and the offsets that are lost.
With --discard, replace them by batches without records. All valid batches remain, also those after the damage, and ottla and
Apache Kafka can start on the directory. Make a copy first: discarded data cannot be restored.

A log with replicas on other brokers is not changed, because it would differ from them: move its directory away, and the broker
copies the log from the leader.

Exit with 0 if no damage is left, else with 2."""


@click.command("recover", help=HELP)
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory of a stopped broker of ottla or Apache Kafka.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=LOG,
    metavar="TOPIC:N",
    help="Partition to check; repeatable (default: all partitions).",
)
@click.option("--discard", is_flag=True, help="Replace the damaged parts. Without this option nothing is written.")
@click.option("--only-replica", is_flag=True, help="With --discard: also change logs that have replicas on other brokers.")
@json_option
def command(data_dir: str, partitions: tuple[tuple[str, int], ...], discard: bool, only_replica: bool, as_json: bool) -> int:
    from ottla.cli.directories import recover

    interrupt_on_ctrl_c()
    return recover(data_dir, set(partitions), discards=discard, is_only_replica=only_replica, as_json=as_json)
