"""``ottla adopt``: takes over topics from Apache Kafka's directories."""

from __future__ import annotations

import click

from ottla.cli.options import json_option
from ottla.process import interrupt_on_ctrl_c


@click.command("adopt", help="Import topics from a data directory of Apache Kafka.")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="KAFKA_DIR",
    help="Log directory of Apache Kafka, a copy of it, or the directory of one partition.",
)
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory of a stopped ottla broker, or a new directory.")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Topic to import; repeatable (default: all topics).")
@json_option
def command(source: str, data_dir: str, topics: tuple[str, ...], as_json: bool) -> int:
    from ottla.cli.directories import adopt

    interrupt_on_ctrl_c()
    return adopt(source, data_dir, list(topics), as_json=as_json)
