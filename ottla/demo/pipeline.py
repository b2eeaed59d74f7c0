"""The pipeline from end to end on a broker of its own: generate, shop, totals, export, audit."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from ottla.arguments import BadArgument, count
from ottla.handle import Broker
from ottla.pipeline.cli import main
from ottla.spark.formats import FORMATS

console = Console(highlight=False)


def _count(text: str) -> int:
    """Raises ArgumentTypeError, whose text argparse shows."""
    try:
        return count(text)
    except BadArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(arguments: list[str]) -> int:
    """Exit code of the first job that fails, else 0."""
    parser = argparse.ArgumentParser(prog="ottla pipeline demo", description="All jobs, on a broker that is started for them.")
    parser.add_argument("--rows", type=_count, default=200_000)
    parser.add_argument("--format", choices=sorted(FORMATS), default="json")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ottla-pipeline-") as root, Broker(data_dir=Path(root) / "data") as broker:
        at = ["--bootstrap", broker.bootstrap]
        values = ["--format", options.format]
        for job in (
            ["generate", *at, *values, "--rows", str(options.rows)],
            ["shop", *at, *values, "--checkpoint", f"{root}/shop"],
            ["totals", *at, *values, "--checkpoint", f"{root}/totals"],
            ["export", *at, "--to", f"{root}/export", "--data-dir", f"{root}/data"],
            ["audit", *at, *values, "--totals", "--export", f"{root}/export"],
        ):
            code = main(job)
            if code:
                console.print(f"pipeline demo: not sound, {job[0]} ended with {code}", style="red")
                return code
    console.print(f"pipeline demo: sound, {options.rows:,} purchases were each handled once", style="green")
    return 0
