"""``ottla graduate``: makes a data directory for Apache Kafka from ottla's."""

from __future__ import annotations

import click

from ottla.cli.features import feature_levels
from ottla.cli.options import json_option
from ottla.process import interrupt_on_ctrl_c


@click.command("graduate", help="Turns a data directory into one that Apache Kafka starts on.")
@click.option("--data-dir", required=True, metavar="DIR", help="of a stopped broker; nothing is written into it")
@click.option("--to", metavar="KAFKA_DIR", help="made, with a copy of everything")
@click.option("--in-place", is_flag=True, help="hand DIR itself over, without a copy")
@click.option("--dry-run", is_flag=True, help="check and report only")
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="a level other than the directory's own, e.g. metadata.version=30 for Apache Kafka 4.3; may be given again",
)
@json_option
def command(data_dir: str, to: str | None, in_place: bool, dry_run: bool, features: tuple[str, ...], as_json: bool) -> int:
    from ottla.cli.directories import graduate

    ways = [flag for flag, is_given in (("--to", to is not None), ("--in-place", in_place), ("--dry-run", dry_run)) if is_given]
    if len(ways) != 1:
        said = " and ".join(ways) + " were given" if ways else "none was given"
        raise click.UsageError(f"one of --to, --in-place and --dry-run is wanted, and {said}")
    levels = feature_levels(features, exit_code=2)
    interrupt_on_ctrl_c()
    return graduate(data_dir, to, dry_run=dry_run, in_place=in_place, features=levels, as_json=as_json)
