"""``python -m ottla.simulation --seeds 1-1000``: simulates brokers with each seed; reports errors and rare states."""

from __future__ import annotations

import argparse
import sys
from multiprocessing import cpu_count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ottla.simulation.judging import Judgement, judge
from ottla.simulation.plan import Plan, decode, encode, named
from ottla.simulation.running import Report, rare, run, shrink

SHOWN_FAILED = 5
SHOWN_LINES = 60
"""Number of history lines shown for a failing seed. `--replay` shows all lines."""


def seeds_of(text: str) -> range:
    """Parse a range of seeds: ``1-1000``, or ``60000`` for 1 to 60,000. Raises ValueError."""
    first, dash, last = text.partition("-")
    seeds = range(int(first), int(last) + 1) if dash else range(1, int(first) + 1)
    if not seeds or seeds[0] < 0:
        raise ValueError(f"{text} is not a range of seeds; give a range such as 1-1000, or a number of seeds")
    return seeds


def _table(report: Report) -> Table:
    table = Table(title=f"rare states in {report.seeds:,} seeds with {report.transactions:,} transactions")
    table.add_column("state")
    table.add_column("reached", justify="right")
    for name in rare(report.brokers):
        count = report.reached[name]
        table.add_row(name, f"{count:,}" if count else "[bold]never[/bold]")
    return table


def _print_verdict(console: Console, verdict: Judgement, *, lines: int | None) -> None:
    console.print(f"[bold]seed {verdict.plan.seed}[/bold]: {len(verdict.findings)} findings", highlight=False)
    for finding in verdict.findings[:10]:
        console.print(f"  {finding}", markup=False, highlight=False)
    history = verdict.lines if lines is None else verdict.lines[-lines:]
    if len(history) < len(verdict.lines):
        console.print(f"  the last {len(history)} of {len(verdict.lines)} lines of its history:", highlight=False)
    for line in history:
        console.print(f"    {line}", markup=False, highlight=False)


def _replay(console: Console, path: Path) -> int:
    verdict = judge(decode(path.read_bytes()))
    _print_verdict(console, verdict, lines=None)
    return 1 if verdict.findings else 0


def shrunk(plan: Plan) -> Plan:
    """Return the smallest plan derived from ``plan`` whose simulation still finds an error."""
    return shrink(plan, lambda smaller: bool(judge(smaller).findings))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=range(1, 101), help="range of seeds such as 1-1000, or a number of seeds")
    parser.add_argument("--transactions", type=int, default=100, help="number of transactions for each seed")
    parser.add_argument("--brokers", type=int, default=1, help="number of brokers; several brokers have a separate controller")
    parser.add_argument("--processes", type=int, default=cpu_count())
    parser.add_argument("--replay", type=Path, help="simulate the plan in this file, and show its history")
    parser.add_argument("--shrink-to", type=Path, help="shrink the first failing plan, and write it to this directory")
    parser.add_argument("--must-reach", action="store_true", help="fail if a rare state is not reached")
    options = parser.parse_args()
    console = Console(soft_wrap=True)
    if options.replay is not None:
        return _replay(console, options.replay)
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not sys.stdout.isatty()) as bar:
        task = bar.add_task("seeds", total=len(options.seeds))
        report = run(
            options.seeds,
            transactions=options.transactions,
            brokers=options.brokers,
            processes=options.processes,
            progress=lambda done: bar.update(task, completed=done),
        )
    console.print(_table(report))
    for verdict in report.failed[:SHOWN_FAILED]:
        _print_verdict(console, verdict, lines=SHOWN_LINES)
    if len(report.failed) > SHOWN_FAILED:
        console.print(f"and seeds {[verdict.plan.seed for verdict in report.failed[SHOWN_FAILED:]]}", highlight=False)
    if report.failed and options.shrink_to is not None:
        plan = shrunk(report.failed[0].plan)
        path = Path(named(plan, options.shrink_to))
        path.write_bytes(encode(plan))
        console.print(f"{path}: {len(plan.faults)} faults, {len(plan.actors)} actors, {plan.transactions} transactions")
    console.print(
        f"{report.seeds:,} seeds, {len(report.failed)} failed; {len(report.missed)} rare states not reached", highlight=False
    )
    return 1 if report.failed or (options.must_reach and report.missed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
