"""The conformance scoreboard: what each broker answered to the scenario catalogue. ``make conformance`` runs it.

Reads what ``pytest --scoreboard FILE`` wrote, prints a table, and writes docs/conformance.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOT_RUN = ROOT / "tests" / "scenarios" / "not_run.txt"
TARGET = ROOT / "docs" / "conformance.md"
SECTIONS = {
    "IDM": "A. Idempotent producer",
    "INI": "B. InitProducerId, fencing, epochs",
    "ADD": "C. Adding and verifying partitions",
    "PRD": "D. Produce inside a transaction",
    "END": "E. EndTxn",
    "MRK": "F. Markers and completion",
    "CRD": "G. Coordinator log, restarts, expiry, time-outs",
    "RDC": "H. Reads, last stable offset, aborted lists",
    "OFF": "I. Offsets in transactions",
    "STO": "J. Storage and crash safety",
    "NET": "K. Late, lost, repeated, reordered",
    "TPC": "L. Two-phase commit",
    "ACL": "M. Authorisation",
    "BAD": "N. Bad input",
    "PIP": "O. Pipeline and clients",
}


@dataclass(slots=True)
class Score:
    """Cases of one section against one broker."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, outcome: str) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)

    def __str__(self) -> str:
        run = self.passed + self.failed
        return f"{self.passed} of {run}" if run else "–"


@dataclass(slots=True)
class Board:
    """Scores by section and broker; ``entries`` that were run, by section."""

    scores: dict[str, dict[str, Score]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Score)))
    entries: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    differences: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def board_of(results: list[dict[str, Any]]) -> Board:
    board = Board()
    for result in results:
        section = result["entries"][0][:3]
        board.scores[section][result["target"]].add(result["outcome"])
        for entry in result["entries"]:
            board.entries[entry[:3]].add(entry)
        if result.get("differs"):
            board.differences[f"{' '.join(result['entries'])}, {result['title']}"] = result["differs"]
        if result["outcome"] == "failed":
            board.failures.append(result["test"])
    return board


def table(board: Board) -> list[list[str]]:
    rows = [["Section", "Entries", "ottla, simulated", "ottla", "Apache Kafka 4.3.1"]]
    total = {name: Score() for name in ("simulated", "ottla", "kafka")}
    for section, title in SECTIONS.items():
        if section not in board.scores:
            continue
        scores = board.scores[section]
        rows.append([title, str(len(board.entries[section])), *(str(scores[name]) for name in total)])
        for name, score in total.items():
            score.passed += scores[name].passed
            score.failed += scores[name].failed
    rows.append(["All", str(sum(map(len, board.entries.values()))), *map(str, total.values())])
    return rows


def _markdown(rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]


def document(board: Board) -> str:
    """The text of docs/conformance.md."""
    lines = [
        "# Conformance",
        "",
        "The scenario catalogue, as `make conformance` last found it: cases that passed, of those that were run. A transcript",
        "is a file of requests and answers, written by Apache Kafka 4.3.1 itself and held against ottla twice: in one process",
        "without sockets and clock, and as users run it. Cases that look inside ottla or drive stock clients have no figure for",
        "Kafka.",
        "",
        *_markdown(table(board)),
        "",
        "## Where the two answer differently",
        "",
        *(f"- **{where}.** {why[0].upper()}{why[1:]}." for where, why in sorted(board.differences.items())),
        "- **BAD-08.** Apache Kafka answers requests with bad UTF-8 and negative lengths; ottla closes the",
        "  connection.",
        "- **BAD-15.** Apache Kafka stores batches with a wrong offset delta and answers undecodable payloads with -1; ottla",
        "  refuses them with INVALID_RECORD or CORRUPT_MESSAGE.",
        "- **PRD-14.** Apache Kafka never answers a Produce of null records; ottla answers INVALID_RECORD.",
        "- **IDM-22.** Apache Kafka's producer expiry counts from the records' timestamps, ottla's from when the batch came.",
        "",
        "## Not run yet",
        "",
        *(f"- {line}" for line in NOT_RUN.read_text().splitlines() if line and not line.startswith("#")),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the scoreboard and write docs/conformance.md.")
    parser.add_argument("results", type=Path, nargs="+", help="of one run or several")
    options = parser.parse_args()
    board = board_of([result for path in options.results for result in json.loads(path.read_text())])
    rows = table(board)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for failure in board.failures:
        print(f"failed: {failure}")
    TARGET.write_text(document(board))
    print(f"written: {TARGET.relative_to(ROOT)}")
    return 1 if board.failures else 0


if __name__ == "__main__":
    sys.exit(main())
