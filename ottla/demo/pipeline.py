"""Runs all jobs of the pipeline on a new broker: generate, shop, totals, export, audit."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from ottla.cli import main
from ottla.testing.handle import Broker

console = Console(highlight=False)


def run(*, rows: int, values: str) -> int:
    """Run the jobs. Returns the exit code of the first failed job, else 0. ``values`` names the format of the records' values."""
    with tempfile.TemporaryDirectory(prefix="ottla-pipeline-") as root, Broker(data_dir=Path(root) / "data") as broker:
        at = ["--bootstrap", broker.bootstrap]
        in_format = ["--format", values]
        for job in (
            ["generate", *at, *in_format, "--rows", str(rows)],
            ["shop", *at, *in_format, "--checkpoint", f"{root}/shop"],
            ["totals", *at, *in_format, "--checkpoint", f"{root}/totals"],
            ["export", *at, "--to", f"{root}/export", "--data-dir", f"{root}/data"],
            ["audit", *at, *in_format, "--totals", "--export", f"{root}/export"],
        ):
            code = main(["pipeline", *job])
            if code:
                console.print(f"pipeline demo: the job {job[0]} failed with exit code {code}", style="red")
                return code
    console.print(f"pipeline demo passed: each of {rows:,} purchases was handled once", style="green")
    return 0
