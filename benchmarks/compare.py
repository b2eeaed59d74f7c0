"""Compares ottla with Apache Kafka in alternating runs: ``python -m benchmarks.compare [--pairs 5] [--scale 1.0] [--only PART |
--durable]``.

``--against PYTHON`` compares with the ottla of another checkout instead, which shows the cost of a change. With the same Python and
``--set KEY=VALUE``, which applies to only one of the two brokers, it shows the cost of a setting.

In each pair of runs both brokers are started on new directories, one after the other, and warmed up. The table has the ratio of
each pair, the median ratio, and the ratio of the brokers' processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.brokers import Subject, memory_mib
from benchmarks.workloads import (
    Sample,
    Samples,
    Size,
    create_topic,
    durable,
    java_produce,
    java_transactions,
    throughput,
    transactions,
)

Part = Callable[[Subject, Size], Samples]
IDLE_S = 2.0
LOWER_IS_BETTER = ("(s)", "(ms)", "(MiB)")
PARTS = {"throughput": throughput, "transactions": transactions}
DURABLE_KAFKA = {"log.flush.interval.messages": "1"}
DURABLE_OTTLA = {"ottla.durability": "power"}
"""Settings for ``--durable``: acknowledged records are synced to the disk."""


def warm_up(subject: Subject, size: Size) -> None:
    """Run enough load for a JVM to compile its hot paths. ottla gets the same load."""
    create_topic(subject, "warm-up")
    java_produce(subject, "warm-up", size.records(400_000), 100, None)
    java_transactions(subject, "warm-up", 1, 0, size.seconds(4))


def measure(kind: str, root: Path, size: Size, parts: list[Part], settings: dict[str, str]) -> Samples:
    subject = Subject(kind, root, settings)
    try:
        time.sleep(IDLE_S)
        samples: Samples = {
            "launch to first answer (s)": Sample(subject.launch_s),
            "memory, idle (MiB)": Sample(memory_mib(subject.pid)),
        }
        warm_up(subject, size)
        for part in parts:
            samples |= part(subject, size)
        samples["memory, after load (MiB)"] = Sample(memory_mib(subject.pid))
        return samples
    finally:
        subject.stop()


@dataclass(slots=True, frozen=True)
class Row:
    """A row of the result: medians, the ratio of each pair, and the ratio of the processor times for the same work."""

    name: str
    theirs: str
    ours: str
    median: float
    ratios: list[float]
    cpu: str

    @property
    def is_good(self) -> bool:
        return self.median <= 1 if self.name.endswith(LOWER_IS_BETTER) else self.median >= 1

    @property
    def pair_by_pair(self) -> str:
        return " ".join(f"{r:.2f}" for r in self.ratios)


def rows(pairs: list[tuple[Samples, Samples]]) -> list[Row]:
    """Compute the rows from ``pairs``, each with the samples of the other broker and of ottla."""
    table_rows = []
    for name in pairs[0][1]:
        theirs = [rival[name] for rival, _ in pairs]
        ours = [ottla[name] for _, ottla in pairs]
        ratios = [o.value / t.value for o, t in zip(ours, theirs, strict=True)]
        cpu = ""
        if all(t.cpu_s > 0 for t in theirs):
            # Compare the time per unit of work, because transactions run for a fixed time, not for a fixed count.
            per_unit = [(o.cpu_s / _work(name, o)) / (t.cpu_s / _work(name, t)) for o, t in zip(ours, theirs, strict=True)]
            cpu = f"{statistics.median(per_unit):.2f}"
        digits = 2 if statistics.median(o.value for o in ours) < 100 else 0
        shown = [f"{statistics.median(s.value for s in samples):,.{digits}f}" for samples in (theirs, ours)]
        table_rows.append(Row(name, shown[0], shown[1], statistics.median(ratios), ratios, cpu))
    return table_rows


def columns(rival: str) -> tuple[str, ...]:
    return ("what", rival, "ottla", "ratio, median", "ratio, pair by pair", "broker CPU ratio")


def table_of(table_rows: list[Row], rival: str) -> Table:
    table = Table(title=f"ottla : {rival}, turn about", title_justify="left")
    for column in columns(rival):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in table_rows:
        colour = "green" if row.is_good else "red"
        table.add_row(row.name, row.theirs, row.ours, f"[{colour}]{row.median:.2f}", row.pair_by_pair, row.cpu)
    return table


def markdown(table_rows: list[Row], rival: str) -> str:
    lines = [" | ".join(("", *columns(rival), "")).strip(), "|---|--:|--:|--:|--:|--:|"]
    lines += [f"| {r.name} | {r.theirs} | {r.ours} | {r.median:.2f} | {r.pair_by_pair} | {r.cpu} |" for r in table_rows]
    return "\n".join(lines) + "\n"


def _work(name: str, sample: Sample) -> float:
    return sample.value if name.startswith("transactions") else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=sorted(PARTS), action="append")
    parser.add_argument("--durable", action="store_true", help="transactions alone, on the disk before they are acknowledged")
    parser.add_argument("--against", metavar="PYTHON", help="measure against the ottla of this Python, not Apache Kafka")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting of ottla's; may be given again")
    parser.add_argument("--json", type=Path, help="keep the raw figures here")
    parser.add_argument("--markdown", type=Path, help="write the table for docs/performance.md here")
    options = parser.parse_args()
    console = Console(width=170)
    size = Size(options.scale)
    parts: list[Part] = [durable] if options.durable else [PARTS[name] for name in options.only or PARTS]
    rival_kind, rival = (options.against, "before") if options.against else ("kafka", "Kafka")
    rival_settings = DURABLE_OTTLA if options.against else DURABLE_KAFKA
    settings = {rival_kind: rival_settings, "ottla": DURABLE_OTTLA} if options.durable else {rival_kind: {}, "ottla": {}}
    settings["ottla"] = settings["ottla"] | dict(pair.split("=", 1) for pair in options.set)
    kinds = (rival_kind, "ottla")
    pairs: list[tuple[Samples, Samples]] = []
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as root, Progress(console=console) as progress:
        task = progress.add_task("measuring", total=options.pairs * len(kinds))
        for number in range(options.pairs):
            samples_by_kind: dict[str, Samples] = {}
            for kind in kinds if number % 2 == 0 else kinds[::-1]:
                progress.update(task, description=f"pair {number + 1}: {kind}")
                samples_by_kind[kind] = measure(kind, Path(root), size, parts, settings[kind])
                progress.advance(task)
            pairs.append((samples_by_kind[rival_kind], samples_by_kind["ottla"]))
            if options.json is not None:
                raw = [[{n: [s.value, s.cpu_s] for n, s in samples.items()} for samples in pair] for pair in pairs]
                options.json.write_text(json.dumps(raw, indent=1) + "\n")
    table_rows = rows(pairs)
    console.print(table_of(table_rows, rival))
    if options.markdown is not None:
        options.markdown.write_text(markdown(table_rows, rival))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
