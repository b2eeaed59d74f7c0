"""Leaders, coordinators and the controller of three brokers are killed while stock clients write transactions."""

from __future__ import annotations

import os

import pytest

from tests.chaos.director import has_java
from tests.chaos.several import run

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

KILLS = int(os.environ.get("KILLS", "15"))
KILLS_WITHIN_BUDGET = 6
SEED = os.environ.get("SEED") or "190476"
"""A fixed seed, so that a failure can be reproduced. ``make chaos BROKERS=3`` uses random seeds."""


def test_transactions_are_exactly_once_during_kills_of_three_brokers(
    capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    kills = KILLS_WITHIN_BUDGET if pytestconfig.getoption("--budgets") else KILLS
    report = run(kills, SEED, brokers=3, java=has_java()[0])
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.findings
    assert report.killed >= kills
