"""Exactly-once semantics hold while stock clients write transactions and the broker is killed, often inside a commit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.chaos.director import has_java, run
from tests.chaos.table import table

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

KILLS = int(os.environ.get("KILLS", "60"))
KILLS_WITHIN_BUDGET = 8
SEED = os.environ.get("SEED") or str(time.time_ns() % 1_000_000)


@pytest.mark.entry("STO-01", "CRD-01", "MRK-08")
def test_transactions_are_exactly_once_during_kills_inside_commits(
    capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    kills = KILLS_WITHIN_BUDGET if pytestconfig.getoption("--budgets") else KILLS

    def say(line: str) -> None:
        with capsys.disabled():
            print(line)

    say(f"\nchaos: SEED={SEED}")
    java, missing = has_java()
    if not java:
        say(f"without the Java clients: {missing}")
    shown: Callable[[int], None] = lambda done: say(f"{done}/{kills} kills") if done % 20 == 0 else None  # noqa: E731
    report = run(kills, SEED, java=java, progress=shown)
    say(table(report))
    assert not report.findings
    assert report.killed >= kills
    assert 3 * report.inside_commit >= report.killed
