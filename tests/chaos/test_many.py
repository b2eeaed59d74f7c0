"""Several of nine brokers fail while stock clients write transactions. ``make nightly`` uses a thousand partitions."""

from __future__ import annotations

import os

import pytest

from tests.chaos.director import has_java
from tests.chaos.many import run

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

FAULTS = int(os.environ.get("KILLS") or "15")
FAULTS_WITHIN_BUDGET = 5
PARTITIONS, PARTITIONS_WITHIN_BUDGET = 400, 150
SEED = os.environ.get("SEED") or "1"


def test_transactions_are_exactly_once_during_faults_of_nine_brokers(
    capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    is_short = pytestconfig.getoption("--budgets")
    faults = FAULTS_WITHIN_BUDGET if is_short else FAULTS
    partitions = PARTITIONS_WITHIN_BUDGET if is_short else PARTITIONS
    report = run(faults, SEED, brokers=9, partitions=partitions, java=has_java()[0])
    with capsys.disabled():
        print(f"\n{report}")
    assert not report.findings
    assert report.done >= faults
