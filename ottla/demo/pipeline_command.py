"""``ottla pipeline demo``: runs all jobs of the pipeline on a new broker."""

from __future__ import annotations

import click

from ottla.cli.pipeline import rows_option, running_job
from ottla.cli.pipeline_flags import format_option


@click.command("demo", help="Run all jobs of the pipeline on a broker of their own.")
@rows_option
@format_option
def command(rows: int, format: str) -> int:
    with running_job():
        from ottla.demo.pipeline import run

        return run(rows=rows, values=format)
