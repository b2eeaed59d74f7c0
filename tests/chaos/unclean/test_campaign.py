"""Failures of last in-sync replicas, with unclean elections enabled and disabled, while stock clients write transactions."""

from __future__ import annotations

import os

import pytest

from tests.chaos.director import has_java
from tests.chaos.unclean.campaign import OFF, ON, run

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long]

FAULTS = int(os.environ.get("KILLS", "15"))
FAULTS_WITHIN_BUDGET = 3
SEED = os.environ.get("SEED") or "1"


@pytest.mark.parametrize("mode", [OFF, ON])
def test_only_unclean_elections_lose_records(mode: str, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config) -> None:
    within_budget = pytestconfig.getoption("--budgets")
    faults = FAULTS_WITHIN_BUDGET if within_budget else FAULTS
    report = run(mode, faults, SEED, java=has_java()[0] and not within_budget)
    with capsys.disabled():
        print(f"\nunclean elections {mode}: {report}")
    assert not report.findings
    assert report.done >= faults
