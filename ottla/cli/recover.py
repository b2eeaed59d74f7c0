"""``ottla recover``: finds damaged parts of logs in a data directory, and gives them up where that is asked for."""

from __future__ import annotations

import click

from ottla.cli.options import Checked, json_option, topic_partition
from ottla.process import interrupt_on_ctrl_c

LOG = Checked("topic_partition", topic_partition)
HELP = """Shows the damaged parts of logs in the directory of a stopped broker: how many bytes, and which offsets are lost.
With --discard they are replaced by batches without records. All whole batches stay, also those behind the damage, and ottla and
Apache Kafka start on the directory. Make a copy first: what is discarded cannot be restored from the directory.

A log with replicas on other brokers is not changed, because it would differ from them: move its directory away, and the broker
copies the log from its leader.

Exits with 0 if no damage is left, with 2 if some is."""


@click.command("recover", help=HELP)
@click.option("--data-dir", required=True, metavar="DIR", help="of a stopped broker, ottla or Apache Kafka")
@click.option("--partition", "partitions", multiple=True, type=LOG, metavar="TOPIC:N", help="only this one; may be given again")
@click.option("--discard", is_flag=True, help="give the damaged parts up; without it nothing is written")
@click.option("--only-replica", is_flag=True, help="with --discard: no other broker has a replica of the damaged logs")
@json_option
def command(data_dir: str, partitions: tuple[tuple[str, int], ...], discard: bool, only_replica: bool, as_json: bool) -> int:
    from ottla.cli.directories import recover

    interrupt_on_ctrl_c()
    return recover(data_dir, set(partitions), discards=discard, is_only_replica=only_replica, as_json=as_json)
