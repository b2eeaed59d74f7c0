"""Writes docs/conformance.md, the scoreboard of each broker in the test cases of the rules.

``make conformance`` runs the test cases, and passes the files that ``pytest --scoreboard FILE`` writes. With ``PARTS=T,V`` it runs
only the cases of these parts of docs/rules.md, and the figures of other parts stay. Without files (``make generate``) all figures
on the page stay, and everything else is generated again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scenarios import script
from tools import rules
from tools.kafka import KAFKA_VERSION, ORACLE_VERSION

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "conformance.md"
TARGETS = {"simulated": "ottla, simulated", "ottla": "ottla", "kafka": f"Apache Kafka {ORACLE_VERSION}"}
NO_CASES = "–"
DIFFERENCES_OF_TESTS = (
    "**BAD-08.** Apache Kafka responds to requests with negative array lengths; ottla closes the connection.",
    "**BAD-15.** Apache Kafka stores batches with a wrong offset delta, and returns UNKNOWN_SERVER_ERROR for payloads that cannot"
    " be decoded; ottla returns INVALID_RECORD or CORRUPT_MESSAGE.",
    "**PRD-14.** Apache Kafka never responds to a Produce with null records; ottla returns INVALID_RECORD.",
    "**IDM-22.** Apache Kafka measures a producer's age from the timestamps of its records, ottla from the arrival of its last"
    " batch.",
)
"""Differences from Kafka that are not in a ``differs:`` line of a transcript."""


@dataclass(slots=True)
class Score:
    """The results of the test cases of one section of the rules against one broker."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, outcome: str) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)

    def __str__(self) -> str:
        run = self.passed + self.failed
        return f"{self.passed} of {run}" if run else NO_CASES


@dataclass(slots=True)
class Board:
    """Scores by section of docs/rules.md and by broker."""

    scores: dict[str, dict[str, Score]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Score)))
    failures: list[str] = field(default_factory=list)


def board_of(results: list[dict[str, Any]]) -> Board:
    board = Board()
    section_of = {rule: section for section, members in rules.by_section().items() for rule in members}
    for result in results:
        board.scores[section_of[result["entries"][0]]][result["target"]].add(result["outcome"])
        if result["outcome"] == "failed":
            board.failures.append(result["test"])
    return board


def board_on(page: str) -> Board:
    """Parse the figures on a page."""
    board = Board()
    sections = rules.by_section()
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] not in sections:
            continue
        for target, cell in zip(TARGETS, cells[-len(TARGETS) :], strict=True):
            if cell != NO_CASES:
                passed, run = map(int, cell.split(" of "))
                board.scores[cells[0]][target] = Score(passed=passed, failed=run - passed)
    return board


def merged(board: Board, page: str, sections: list[str]) -> Board:
    """Return the scores of a page with those of ``board`` in place of some sections. Raises `ValueError` if a section has no
    result."""
    without = [section for section in sections if section not in board.scores]
    if without:
        raise ValueError(f"no test of {without[0]!r} was run, so the page keeps its figures")
    kept = board_on(page)
    for section in sections:
        kept.scores[section] = board.scores[section]
    kept.failures = board.failures
    return kept


def table(board: Board) -> list[list[str]]:
    marked = rules.marked()
    rows = [["Section", "Rules", "With a test", *TARGETS.values()]]
    total = {target: Score() for target in TARGETS}
    for section, members in rules.by_section().items():
        scores = board.scores[section]
        rows.append([section, str(len(members)), str(len(marked & set(members))), *(str(scores[target]) for target in TARGETS)])
        for target, score in total.items():
            score.passed += scores[target].passed
            score.failed += scores[target].failed
    rows.append(["All", str(len(rules.known())), str(len(marked & rules.known())), *map(str, total.values())])
    return rows


def _markdown(rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]


def _differences() -> list[str]:
    scenarios = (scenario for file in sorted(script.FOLDER.glob("*.txt")) for scenario in script.load(file))
    differences = ((f"{' '.join(s.entries) or s.name}, {s.title}", s.differs) for s in scenarios if s.differs)
    return [*(f"**{where}.** {why[0].upper()}{why[1:]}." for where, why in sorted(differences)), *DIFFERENCES_OF_TESTS]


def document(board: Board) -> str:
    untested = (line for line in rules.NOT_RUN.read_text().splitlines() if line and not line.startswith("#"))
    lines = [
        "# Conformance",
        "",
        "Results of the tests of the [rules](rules.md) in the last run of `make conformance`: cases that passed, of all that were",
        f"run. A transcript is a list of requests with the responses that {TARGETS['kafka']} gave. Transcripts run against ottla",
        "twice: in one process without sockets and with a simulated clock, and as a server; those of parts V and W only as a",
        "server. Cases that look inside ottla or use stock clients are not run against Kafka. A section without figures had no",
        "cases in that run. The transcripts are run against Apache Kafka 4.3.1 too: where its response differs, the transcript",
        "has both responses, and `since:` names what 4.3.1 does not support.",
        "",
        *_markdown(table(board)),
        "",
        "## Differences between the responses",
        "",
        *(f"- {rules.link(difference)}" for difference in _differences()),
        "",
        "## Rules without a test",
        "",
        *(f"- {rules.link(line)}" for line in untested),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the scoreboard and write docs/conformance.md.")
    parser.add_argument("results", type=Path, nargs="*", help="of one run or several; without, the page keeps its figures")
    parser.add_argument("--parts", default="", metavar="LETTERS", help="the parts of docs/rules.md that were run, as T,V; else all")
    options = parser.parse_args()
    results = [result for path in options.results for result in json.loads(path.read_text())]
    board = board_of(results) if options.results else board_on(TARGET.read_text())
    if options.results and options.parts:
        board = merged(board, TARGET.read_text(), rules.sections_of(options.parts))
    rows = table(board)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for failure in board.failures:
        print(f"failed: {failure}")
    if ORACLE_VERSION == KAFKA_VERSION:
        TARGET.write_text(document(board))
        print(f"written: {TARGET.relative_to(ROOT)}")
    else:
        print(f"{TARGET.relative_to(ROOT)} is of Apache Kafka {KAFKA_VERSION} and stays as it is")
    return 1 if board.failures else 0


if __name__ == "__main__":
    sys.exit(main())
