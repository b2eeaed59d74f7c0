"""``ottla graduate``: converts a data directory of ottla for Apache Kafka."""

from __future__ import annotations

import click

from ottla.cli.features import feature_levels
from ottla.cli.options import json_option
from ottla.process import interrupt_on_ctrl_c


@click.command("graduate", help="Convert a data directory so that Apache Kafka can start on it.")
@click.option(
    "--data-dir",
    required=True,
    metavar="DIR",
    help="Data directory of a stopped broker; changed only with --in-place.",
)
@click.option("--to", metavar="KAFKA_DIR", help="Directory to create with a converted copy.")
@click.option("--in-place", is_flag=True, help="Convert the data directory itself instead of a copy.")
@click.option("--dry-run", is_flag=True, help="Check and report only.")
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Feature level to set, e.g. metadata.version=30 for Apache Kafka 4.3; repeatable (default: the levels of the directory).",
)
@json_option
def command(data_dir: str, to: str | None, in_place: bool, dry_run: bool, features: tuple[str, ...], as_json: bool) -> int:
    from ottla.cli.directories import graduate

    ways = [flag for flag, is_given in (("--to", to is not None), ("--in-place", in_place), ("--dry-run", dry_run)) if is_given]
    if len(ways) != 1:
        said = " and ".join(ways) + " were given" if ways else "none was given"
        raise click.UsageError(f"give one of --to, --in-place and --dry-run; {said}")
    levels = feature_levels(features, exit_code=2)
    interrupt_on_ctrl_c()
    return graduate(data_dir, to, dry_run=dry_run, in_place=in_place, features=levels, as_json=as_json)
