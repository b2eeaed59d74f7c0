"""``ottla adopt``: takes over topics from Apache Kafka's directories."""

from __future__ import annotations

import click

from ottla.cli.options import json_option
from ottla.process import interrupt_on_ctrl_c


@click.command("adopt", help="Takes topics of an Apache Kafka data directory over.")
@click.option("--from", "source", required=True, metavar="KAFKA_DIR", help="log.dirs, a copy of it, or one partition")
@click.option("--data-dir", required=True, metavar="DIR", help="of a stopped broker, or a new one")
@click.option("--topic", "topics", multiple=True, metavar="T", help="only this one; may be given again")
@json_option
def command(source: str, data_dir: str, topics: tuple[str, ...], as_json: bool) -> int:
    from ottla.cli.directories import adopt

    interrupt_on_ctrl_c()
    return adopt(source, data_dir, list(topics), as_json=as_json)
