"""Measures how long a broker takes to be ready, over many starts: ``python -m benchmarks.starts [--count 1000]``.

The time is from the call of `Broker.start` until clients can connect, on a new directory each time. Exits with 1 if a start fails.
"""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ottla import Broker, BrokerFailed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    options = parser.parse_args()
    console = Console()
    ready_s, stopped_s, failures = list[float](), list[float](), list[str]()
    for _ in track(range(options.count), "starts", console=console):
        broker = Broker()
        began_s = time.perf_counter()
        try:
            broker.start()
        except BrokerFailed as error:
            failures.append(str(error))
            continue
        ready_s.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        broker.close()
        stopped_s.append(time.perf_counter() - began_s)
    table = Table("", "p50", "p99", "longest", title=f"{len(ready_s):,} starts, {len(failures)} failures", title_justify="left")
    for name, took_s in (("ready", ready_s), ("stopped", stopped_s)):
        cuts = statistics.quantiles(took_s, n=100)
        table.add_row(name, *(f"{1_000 * s:.0f} ms" for s in (cuts[49], cuts[98], max(took_s))))
    console.print(table)
    for failure in failures[:5]:
        console.print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
