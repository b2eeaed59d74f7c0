"""``ottla adopt``: imports topics from Apache Kafka's directories."""

from __future__ import annotations

import click

from ottla.cli.options import json_option
from ottla.process import interrupt_on_ctrl_c

HELP = """Import topics from a data directory of Apache Kafka, or from a directory that a broker has set aside because no topic has
its id.

A stray directory TOPIC-N.ID-stray, which `ottla health` names, is imported with the topic's other stray directories in the
same directory, which may be --data-dir. With --as the topic gets another name and a new topic id. The source is not changed."""


@click.command("adopt", help=HELP)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="KAFKA_DIR",
    help="Log directory of Apache Kafka, a copy of it, the directory of one partition, or a stray directory.",
)
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory of a stopped ottla broker, or a new directory.")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Topic to import; repeatable (default: all topics).")
@click.option(
    "--as",
    "new_name",
    metavar="NAME",
    help="New name of the topic; only if --from is the directory of a partition, or a stray directory.",
)
@json_option
def command(source: str, data_dir: str, topics: tuple[str, ...], new_name: str | None, as_json: bool) -> int:
    from ottla.cli.directories import adopt

    interrupt_on_ctrl_c()
    return adopt(source, data_dir, list(topics), new_name, as_json=as_json)
