"""``ottla audit``: checks that every transaction in a data directory is complete."""

from __future__ import annotations

import click

from ottla.cli.options import json_option
from ottla.process import interrupt_on_ctrl_c


@click.command(
    "audit",
    help="Check that every transaction in a data directory is complete. Exit with 0 if so, else list the incomplete transactions.",
)
@click.argument("directory", metavar="DIR")
@json_option
def command(directory: str, as_json: bool) -> int:
    """Audit a data directory of ottla or Apache Kafka. Nothing is written to the directory."""
    from ottla.cli.directories import audit

    interrupt_on_ctrl_c()
    return audit(directory, as_json=as_json)
