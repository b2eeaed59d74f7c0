"""Share groups deliver every record correctly during failures of coordinators, leaders and members."""

from __future__ import annotations

import os

import pytest

from tests.chaos.share.campaign import run
from tests.chaos.share.members import program
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

FAULTS = int(os.environ.get("KILLS", "15"))
FAULTS_WITHIN_BUDGET = 4
SEED = os.environ.get("SEED") or "1"


def test_share_group_loses_no_records_and_repeats_no_acknowledged_records_during_failures(
    capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    try:
        program()
    except kafka.Unavailable as missing:
        pytest.skip(f"Java clients: {missing}")
    faults = FAULTS_WITHIN_BUDGET if pytestconfig.getoption("--budgets") else FAULTS
    report = run(faults, SEED)
    with capsys.disabled():
        print(f"\nshare groups: {report}")
    assert not report.findings
    assert report.done >= faults
