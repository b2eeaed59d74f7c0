"""``python -m tests.chaos --kills N --seed S``: runs a campaign, shows its progress, and prints the table."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.chaos import campaigns, growth, many, several
from tests.chaos.director import has_java, run
from tests.chaos.rounds import FaultReport
from tests.chaos.share import campaign as share
from tests.chaos.table import table
from tests.chaos.unclean import campaign as unclean


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", "--faults", type=int, default=2_000, help="how many kills, or faults of all kinds")
    parser.add_argument("--seed", default="", help="what a run before has printed; a new one is the default")
    parser.add_argument("--brokers", type=int, default=1, help="3 or more: a cluster, whose brokers and controller are killed")
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--under", choices=["kafka"], help="three brokers under a controller of Apache Kafka; all faults count as kills"
    )
    other.add_argument("--with", dest="beside", choices=["kafka"], help="two brokers and one of Apache Kafka; likewise")
    other.add_argument("--grow", action="store_true", help="one broker whose directory grows to a cluster of three; likewise")
    other.add_argument("--partitions", type=int, metavar="N", help="with --brokers 9: a cluster with so many partitions; likewise")
    other.add_argument("--unclean", choices=["on", "off"], help="three brokers, of which the last in sync fails; likewise")
    other.add_argument("--share", action="store_true", help="share groups of Java members on three brokers; likewise")
    parser.add_argument("--keep", type=Path, help="leave the directories of all rounds there")
    parser.add_argument("--without-java", action="store_true")
    options = parser.parse_args()
    seed = options.seed or str(time.time_ns() % 1_000_000)
    print(f"SEED={seed}", flush=True)
    java, missing = has_java()
    if not java:
        print(f"without the Java clients: {missing}")
    columns = (TextColumn("kills"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as bar:
        task = bar.add_task("kills", total=options.kills)

        def progress(done: int) -> None:
            bar.update(task, completed=done)

        java = java and not options.without_java
        if options.unclean or options.share:
            return _print(_of_faults(options, seed, progress, java=java))
        campaign = campaigns.UNDER_KAFKA if options.under else campaigns.WITH_KAFKA if options.beside else campaigns.OTTLA
        of_cluster: several.ClusterReport
        if options.grow:
            of_cluster = growth.run(options.kills, seed, java=java, progress=progress, keep=options.keep)
            findings, shown = of_cluster.findings, str(of_cluster)
        elif options.partitions:
            of_cluster = many.run(
                options.kills,
                seed,
                brokers=options.brokers,
                partitions=options.partitions,
                java=java,
                progress=progress,
                keep=options.keep,
            )
            findings, shown = of_cluster.findings, str(of_cluster)
        elif options.brokers > 1 or campaign != campaigns.OTTLA:
            brokers = options.brokers if campaign == campaigns.OTTLA else 3
            of_cluster = several.run(
                options.kills, seed, brokers=brokers, java=java, campaign=campaign, progress=progress, keep=options.keep
            )
            findings, shown = of_cluster.findings, str(of_cluster)
        else:
            of_broker = run(options.kills, seed, java=java, progress=progress, keep=options.keep)
            findings, shown = of_broker.findings, table(of_broker)
    print(shown)
    return 1 if findings else 0


def _of_faults(options: argparse.Namespace, seed: str, progress: Callable[[int], None], *, java: bool) -> FaultReport:
    """Run the share group campaign or the campaign of unclean elections, where ``--kills`` counts faults of all kinds."""
    if options.share:
        return share.run(options.kills, seed, progress=progress, keep=options.keep)
    return unclean.run(options.unclean, options.kills, seed, java=java, progress=progress, keep=options.keep)


def _print(report: FaultReport) -> int:
    print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
