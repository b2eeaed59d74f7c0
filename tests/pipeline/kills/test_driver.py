"""The driver is killed with SIGKILL at every point of a batch and at random times: each purchase is handled once in both outputs.

Under the same kills, Spark's own sink must write duplicates; otherwise these tests would prove nothing. ``ROUNDS=30`` sets the
number of kills at random times.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla import Broker
from ottla.pipeline.generate import Workload
from tests.pipeline.kills.driver import GATHERS, POINTS
from tests.pipeline.kills.shopping import LIFE_S, Shopping, moments
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [
    pytest.mark.wire,
    pytest.mark.full,
    pytest.mark.long,
    pytest.mark.java,
    pytest.mark.entry("PIP-01", "PIP-02", "PIP-03", "PIP-11", "PIP-12"),
]

ROUNDS = int(os.environ.get("ROUNDS", "2"))
WORKLOAD = Workload(9_000, malformed_share=0.02)
LONGEST_LIFE_S = 8.0
"""Upper bound, in seconds, on random kill times, so that a kill hits one of the first few batches of a run."""


def die_at_every_point(shopping: Shopping) -> None:
    seen = 0
    for point in POINTS:
        assert shopping.live(point) == -signal.SIGKILL
        now = shopping.agreed_outputs().total()
        assert now > seen, f"the run that ended at {point} wrote no output"
        seen = now
    assert shopping.live() == 0
    shopping.check_exactly_once()


@pytest.mark.parametrize("gathers", ["0", "1"])
def test_spark_driver_killed_at_every_point_of_a_batch_duplicates_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathers: str
) -> None:
    """A batch is written by tasks, or it is small and gathered by the driver."""
    monkeypatch.setenv(GATHERS, gathers)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with Broker(data_dir=tmp_path / "data") as broker:
        shopping = Shopping(broker.bootstrap, tmp_path / "checkpoint", WORKLOAD)
        shopping.open()
        die_at_every_point(shopping)
    assert not list(scratch.glob("ottla-package-*")), "a killed driver leaves package archives behind"


@pytest.mark.skipif(not os.environ.get("ORACLE"), reason="asked of Apache Kafka by ORACLE=1, or make kills")
def test_spark_driver_killed_at_every_point_duplicates_no_records_on_apache_kafka(tmp_path: Path) -> None:
    try:
        with ApacheKafka(tmp_path / "kafka") as kafka:
            shopping = Shopping(kafka.bootstrap, tmp_path / "checkpoint", WORKLOAD)
            shopping.open()
            die_at_every_point(shopping)
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")


@pytest.mark.nightly
def test_spark_driver_killed_at_random_times_duplicates_no_records(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        shopping = Shopping(broker.bootstrap, tmp_path / "checkpoint", Workload(8_000 * max(ROUNDS, 4)))
        shopping.open()
        killed = 0
        for moment in moments(ROUNDS, LONGEST_LIFE_S, seed=ROUNDS):
            ended = shopping.live_until(moment)
            assert ended in (0, -signal.SIGKILL)
            killed += ended != 0
            shopping.agreed_outputs()
        assert killed == ROUNDS, "a job ended before it was killed"
        # With more kills there are more purchases, so more of them remain for the last run.
        assert shopping.live(within_s=LIFE_S * max(1, ROUNDS / 6)) == 0
        shopping.check_exactly_once()


@pytest.mark.nightly
def test_sparks_builtin_kafka_sink_duplicates_records_after_a_kill(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        shopping = Shopping(broker.bootstrap, tmp_path / "checkpoint", WORKLOAD, sink="spark")
        shopping.open()
        for _ in range(2):
            assert shopping.live(POINTS[1]) == -signal.SIGKILL
        assert shopping.live() == 0
        assert shopping.duplicates() > 0
