"""Writes the table in docs/testing.md with the number and duration of tests by folder and level.

``make test`` and ``make test-all`` store the durations in ``.cache``; ``python -m tools.durations`` writes them to the page.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "testing.md"
RUNS = {"make test": ROOT / ".cache" / "durations-test.json", "make test-all": ROOT / ".cache" / "durations-full.json"}
"""The files of durations by command."""
BEGIN, END = "<!-- durations: begin -->\n", "<!-- durations: end -->\n"


def folder_of(test: str) -> str:
    """Return the folder of a test below ``tests``. Tests directly in ``tests`` share the row ``tests``."""
    parts = Path(test.partition("::")[0]).parts
    return parts[1] if len(parts) > 2 else "tests"


def table(runs: dict[str, dict[str, dict[str, float | str]]]) -> str:
    """Return the table: for each folder the number of tests, and their seconds in each run. The slowest folder comes first."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(runs, 0))
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(runs, 0.0))
    for run, results in runs.items():
        for test, result in results.items():
            if result["outcome"] != "skipped":
                counts[folder_of(test)][run] += 1
                seconds[folder_of(test)][run] += float(result["duration_s"])
    lines = [
        "| folder | " + " | ".join(f"{run}: tests | seconds" for run in runs) + " |",
        "|---|" + "--:|--:|" * len(runs),
    ]
    for folder in sorted(seconds, key=lambda name: -sum(seconds[name].values())):
        cells = " | ".join(f"{counts[folder][run]} | {seconds[folder][run]:.0f}" for run in runs)
        lines.append(f"| {folder} | {cells} |")
    totals = " | ".join(
        f"{sum(count[run] for count in counts.values())} | {sum(second[run] for second in seconds.values()):.0f}" for run in runs
    )
    return "\n".join([*lines, f"| all | {totals} |", ""])


def main() -> int:
    there = {run: json.loads(file.read_text()) for run, file in RUNS.items() if file.exists()}
    if not there:
        print("No durations in .cache: run make test or make test-all first.", file=sys.stderr)
        return 1
    written = table(there)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{written}{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
