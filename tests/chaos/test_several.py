"""Kills of leaders, coordinators and the controller of three brokers, while stock clients write transactions."""

from __future__ import annotations

import os

import pytest

from tests.chaos.director import has_java
from tests.chaos.several import run

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

KILLS = int(os.environ.get("KILLS", "15"))
KILLS_WITHIN_BUDGET = 6
SEED = os.environ.get("SEED") or "190476"
"""One plan of kills, so that a failure can be played again. ``make chaos BROKERS=3`` draws others: one whose seed was not noted
has failed, for a reason that is not known yet."""


def test_exactly_once_over_kills_of_brokers(capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config) -> None:
    kills = KILLS_WITHIN_BUDGET if pytestconfig.getoption("--budgets") else KILLS
    report = run(kills, SEED, brokers=3, java=has_java()[0])
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.findings
    assert report.killed >= kills
