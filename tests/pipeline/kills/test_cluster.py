"""Executors and Python workers of a standalone cluster are killed in the middle of a batch: each purchase is handled once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla import Broker
from ottla.client.admin.offsets import ranges
from ottla.client.security.client_config import Connecting
from ottla.pipeline.generate import Workload
from ottla.pipeline.schemas import INVOICES
from ottla.spark.cluster.client import cluster_client
from tests.pipeline.kills.cluster import Cluster, executors, python_workers, until
from tests.pipeline.kills.shopping import LIFE_S, Shopping
from tests.support import quick_java
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.nightly, pytest.mark.long, pytest.mark.java, pytest.mark.entry("PIP-01")]

WORKLOAD = Workload(20_000, malformed_share=0.02)
"""Purchases for twenty batches. Both kills happen during the first batches; the test fails if the job ends before the second kill.
"""
ATTACKS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
    "spark.task.maxFailures": "8",
    "spark.stage.maxConsecutiveAttempts": "8",
}
"""Settings under which executors start and stop by themselves, shuffle files are lost, and Spark repeats tasks and stages."""


@contextmanager
def ottla(directory: Path) -> Iterator[str]:
    with Broker(data_dir=directory / "data") as broker:
        yield broker.bootstrap


@contextmanager
def apache_kafka(directory: Path) -> Iterator[str]:
    try:
        kafka = ApacheKafka(directory / "kafka").start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


@pytest.mark.parametrize("settings", [{}, ATTACKS], ids=["plain", "attacks"])
def test_spark_job_loses_and_duplicates_no_records_when_executors_are_killed(tmp_path: Path, settings: dict[str, str]) -> None:
    kill_executors_and_workers(tmp_path, ottla, settings)


@pytest.mark.skipif(not os.environ.get("ORACLE"), reason="asked of Apache Kafka by ORACLE=1, or make kills")
def test_spark_job_on_apache_kafka_loses_and_duplicates_no_records_when_executors_are_killed(tmp_path: Path) -> None:
    kill_executors_and_workers(tmp_path, apache_kafka, ATTACKS)


def kill_executors_and_workers(
    tmp_path: Path, started: Callable[[Path], AbstractContextManager[str]], settings: dict[str, str]
) -> None:
    with started(tmp_path) as bootstrap, Cluster(tmp_path) as cluster:
        environment = {**quick_java.of_a_cluster(settings), "SPARK_MASTER": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1"}
        shopping = Shopping(bootstrap, tmp_path / "checkpoint", WORKLOAD, environment=environment)
        shopping.open()
        wire = cluster_client(Connecting(bootstrap))

        def written() -> int:
            return sum(end for _, end in ranges(wire, INVOICES).values())

        with shopping.start() as life:
            for victims in (executors, python_workers):
                # Wait until a batch is committed, and then until the next batch is partly written.
                until(lambda: shopping.agreed_outputs().total() > 0 or life.poll() is not None, "no batch is committed", LIFE_S)
                before = written()
                until(lambda before=before: written() > before or life.poll() is not None, "nothing is written", LIFE_S)  # type: ignore[misc]
                assert life.poll() is None, "the job ended before a process was killed"
                for victim in victims():
                    with suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                shopping.agreed_outputs()
            assert life.stdout is not None
            said = life.stdout.read()
            assert life.wait(LIFE_S) == 0, (tmp_path / "driver.log").read_text()[-3_000:]
        assert int(said.split()[-2]) >= 1, f"no transaction was restarted: {said}"
        wire.close()
        shopping.check_exactly_once()
