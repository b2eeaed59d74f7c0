"""Mixed clusters of ottla and Apache Kafka nodes fail while stock clients write transactions (`tests.chaos.campaigns`)."""

from __future__ import annotations

import os

import pytest

from tests.chaos import campaigns
from tests.chaos.several import run
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]

FAULTS = int(os.environ.get("KILLS", "15"))
FAULTS_WITHIN_BUDGET = 4
SEED = os.environ.get("SEED") or "1"


@pytest.mark.parametrize("campaign", [campaigns.UNDER_KAFKA, campaigns.WITH_KAFKA])
def test_transactions_are_exactly_once_in_clusters_of_ottla_and_kafka_nodes(
    campaign: str, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    try:
        kafka.java()
        kafka.jars("all")
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    faults = FAULTS_WITHIN_BUDGET if pytestconfig.getoption("--budgets") else FAULTS
    report = run(faults, SEED, brokers=3, java=True, campaign=campaign)
    with capsys.disabled():
        print(f"\n{campaign}: {report}")
    assert not report.findings
    assert report.done >= faults
