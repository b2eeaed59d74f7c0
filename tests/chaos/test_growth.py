"""One broker grows to three while stock clients write transactions, and ``ottla cluster grow`` is killed repeatedly."""

from __future__ import annotations

import os

import pytest

from tests.chaos.director import has_java
from tests.chaos.growth import FAULTS_A_ROUND, run

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

FAULTS = int(os.environ.get("KILLS") or FAULTS_A_ROUND)
FAULTS_WITHIN_BUDGET = 6
SEED = os.environ.get("SEED") or "1"


def test_transactions_are_exactly_once_while_one_broker_grows_to_three(
    capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    faults = FAULTS_WITHIN_BUDGET if pytestconfig.getoption("--budgets") else FAULTS
    report = run(faults, SEED, java=has_java()[0])
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.findings
    assert report.done >= faults
